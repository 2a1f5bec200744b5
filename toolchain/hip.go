package toolchain

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/manifests"
)

// Device is the part of a Kit that an installed device compiler gives: hipcc or
// icpx.
type Device struct {
	// Compiler compiles one source of device code.
	Compiler Tool
	// Hipify turns CUDA sources into HIP: add the files, each of which is
	// written below hip/, a .cu file as .hip. Empty Args for icpx.
	Hipify Tool
	// Includes are the folders of the toolkit's headers for host code.
	Includes []string
	// HeadersFingerprint identifies the text below Includes.
	HeadersFingerprint string
}

//go:embed scripts/hipify.py
var hipifyScript string

// hip provides an installed ROCm. Host code is compiled and linked as for every
// Linux variant; hipcc compiles device code with its host half.
func (s *Store) hip(ctx context.Context, r Request, parts hostParts) (d *Device, runtime string, err error) {
	dir, in, err := s.vendor(ctx, hipcc, r)
	if err != nil {
		return nil, "", err
	}
	runtime, err = newestLibrary(s.Real(dir)+"/lib", "libamdhip64.so")
	if err != nil {
		return nil, "", &Error{"find ROCm's runtime library", err, hipcc.hint}
	}
	// hipcc finds its clang and headers by these, and not by its own place.
	env := map[string]string{"LC_ALL": "C", "ROCM_PATH": dir + "/", "HIP_PATH": dir + "/", "HIP_PLATFORM": "amd"}
	identity := fingerprint("hip", in.text, path.Base(parts.overlay), path.Base(parts.cxx), path.Base(parts.zig), parts.glibc.String())
	d = &Device{
		Compiler:           Tool{append([]string{dir + "/bin/hipcc"}, vendorHost(parts, r.Platform.Arch)...), env, identity},
		Includes:           []string{dir + "/include"},
		HeadersFingerprint: fingerprint("hip-headers", in.text),
	}
	if r.Torch.IsZero() {
		return d, dir + "/lib/" + runtime, nil
	}
	if d.Hipify, err = s.hipify(ctx, r); err != nil {
		return nil, "", err
	}
	return d, dir + "/lib/" + runtime, nil
}

// hipify provides torch's own converter, out of the wheel of the release.
func (s *Store) hipify(ctx context.Context, r Request) (Tool, error) {
	p, err := s.torchPackage(ctx, r.Torch, r.Platform)
	if err != nil {
		return Tool{}, err
	}
	converter, err := s.wheelHeaders(ctx, p, fmt.Sprintf("hipify-%s-%s", p.Version, p.SHA256[:16]), wheelTail, func(member string) string {
		rest, ok := strings.CutPrefix(member, "torch/utils/hipify/")
		if !ok || !strings.HasSuffix(rest, ".py") {
			return ""
		}
		return "hipify/" + rest
	})
	if err != nil {
		return Tool{}, err
	}
	driver, err := s.entry(ctx, "hipify-driver-"+fingerprint(hipifyScript), func(dir string) error {
		return script(dir, "hipify.py", hipifyScript)
	})
	if err != nil {
		return Tool{}, err
	}
	return Tool{
		Args:        []string{"python3", "-I", "-B", driver + "/hipify.py", converter + "/"},
		Env:         map[string]string{"LC_ALL": "C", "PYTHONUTF8": "1"},
		Fingerprint: fingerprint("hipify", path.Base(converter), path.Base(driver)),
	}, nil
}

// newestLibrary is the name with the shortest version, libX.so.N, which is what
// a library that is linked with it asks for.
func newestLibrary(dir, stem string) (string, error) {
	found, err := filepath.Glob(filepath.Join(dir, stem+".*"))
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("no %s.* in it", filepath.Join(filepath.Base(dir), stem))
	}
	return filepath.Base(slices.MinFunc(found, func(a, b string) int { return len(a) - len(b) })), nil
}

// vendorLibraries are torch's libraries of a backend beside the common ones.
func vendorLibraries(b manifests.Backend) []string {
	switch b {
	case manifests.ROCm:
		return []string{"libc10_hip.so", "libtorch_hip.so"}
	case manifests.XPU:
		return []string{"libc10_xpu.so", "libtorch_xpu.so"}
	}
	return nil
}

// vendorStubs makes empty libraries for vendorLibraries.
func (s *Store) vendorStubs(ctx context.Context, zig, triple string, b manifests.Backend) (string, error) {
	libs := vendorLibraries(b)
	name := fmt.Sprintf("link-%s-%s", b, fingerprint(append([]string{zig, triple}, libs...)...))
	return s.entry(ctx, name, func(dir string) error {
		w := stubMaker{s: s, ctx: ctx, zig: s.Real(zig) + "/zig", triple: triple, dir: dir, tmp: filepath.Join(dir, "tmp")}
		if err := os.Mkdir(w.tmp, 0o755); err != nil {
			return err
		}
		empty := filepath.Join(w.tmp, "empty.s")
		if err := os.WriteFile(empty, []byte("\t.section .note.GNU-stack,\"\",%progbits\n"), 0o644); err != nil {
			return err
		}
		for _, lib := range libs {
			if err := w.library(empty, "", lib, lib); err != nil {
				return fmt.Errorf("stub of %s: %w", lib, err)
			}
		}
		return os.RemoveAll(w.tmp)
	})
}
