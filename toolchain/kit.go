package toolchain

import (
	"context"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/thox-ai/thoxbuild/manifests"
)

// Request says what a variant needs.
type Request struct {
	// Torch is the release whose headers are compiled against; zero for none.
	Torch    manifests.Version
	Compute  manifests.Compute
	Platform manifests.Platform
	// Zig pins the compiler's release; empty means DefaultZig.
	Zig string
	// Glibc is the oldest glibc that the result must load with; zero means 2.28.
	Glibc manifests.Version
	// CUDA says where the device compiler comes from; empty means its wheels.
	CUDA manifests.CUDASource
}

// DefaultGlibc is what manylinux_2_28 promises.
var DefaultGlibc = manifests.Version{Major: 2, Minor: 28}

// Tool is a program with the arguments that every use of it begins with.
type Tool struct {
	// Args is the command's beginning; Args[0] is a virtual path.
	Args []string
	// Env is the environment it needs, with virtual paths.
	Env map[string]string
	// Fingerprint identifies the program and everything that Args name, for
	// action keys: equal fingerprints give equal outputs for equal inputs.
	Fingerprint string
}

// Kit is everything that compiling and linking one variant takes. All paths
// in it are virtual, see Store.Real.
type Kit struct {
	Platform manifests.Platform
	// CXX compiles C++ (add "-c SOURCE -o OBJECT") without torch's headers. It
	// does not depend on the torch release, so its objects are shared.
	CXX Tool
	// TorchCXX adds torch's headers and language standard; empty Args without
	// a torch release.
	TorchCXX Tool
	// TorchIncludes are torch's include folders, for compilers other than CXX.
	TorchIncludes []string
	// CUDA compiles device code; nil for a request without CUDA.
	CUDA *CUDA
	// HIP and SYCL compile device code with an installed compiler; nil for a
	// request without ROCm or XPU.
	HIP, SYCL *Device
	// Metal is the beginning of a command of Xcode's Metal tools (add "metal"
	// or "metallib" and their arguments); nil for a request without Metal.
	Metal *Tool
	// Link makes a shared library.
	Link Linker
	// LibstdcxxVersion is the major version of the g++ whose library is used.
	LibstdcxxVersion string

	link *linkParts // nil for macOS
}

// Linkable completes what Link reads.
func (k *Kit) Linkable(ctx context.Context) error {
	if k.link == nil || k.link.early == "" {
		return nil
	}
	return k.link.complete(ctx)
}

// EarlyLink is how to link while a part that few libraries need is not made:
// with To in place of From in every argument of a link's command, after Ready.
// LinkedWhole tells whether the result is the same.
type EarlyLink struct {
	From, To string
	Ready    func(context.Context) error
}

// EarlyLink is nil where everything that Link reads is there, or where another
// linker than the kit's own is used.
func (k *Kit) EarlyLink() *EarlyLink {
	if k.link == nil || k.link.early == "" || k.SYCL != nil {
		return nil
	}
	return &EarlyLink{k.link.whole + "/", k.link.early + "/", k.link.making.wait}
}

// Linker is lld with the libraries that a torch extension is linked against.
// The order is what makes the result fit the policy: symbols that the stub of
// libstdc++ offers come from the target's library, the others from the
// archive, hidden.
type Linker struct {
	Tool
	tail []string
}

// Command is the whole link command. Objects and output are the caller's
// paths; extra goes in front of the libraries.
func (l Linker) Command(output string, objects, extra []string) []string {
	args := append([]string(nil), l.Args...)
	args = append(args, "-o", output)
	args = append(args, objects...)
	args = append(args, extra...)
	return append(args, l.tail...)
}

// TorchStandard is the C++ standard that torch's headers of a release need.
func TorchStandard(torch manifests.Version) string {
	if torch.Compare(manifests.Version{Major: 2, Minor: 12}) < 0 {
		return "c++17"
	}
	return "c++20"
}

// Kit provides the kit for a request: it fetches and makes what the store
// lacks. The bundled compilers target Linux; macOS has Xcode's.
func (s *Store) Kit(ctx context.Context, r Request) (*Kit, error) {
	kit, err := s.CompileKit(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := kit.Linkable(ctx); err != nil {
		return nil, err
	}
	return kit, nil
}

// CompileKit is Kit for those who compile first: what only Link reads may not be
// there yet, see EarlyLink and Linkable. Close the store in the end.
func (s *Store) CompileKit(ctx context.Context, r Request) (*Kit, error) {
	switch r.Platform.OS {
	case manifests.Linux:
	case manifests.Darwin:
		return s.macOSKit(ctx, r)
	default:
		return nil, &Error{"choose compilers for " + r.Platform.String(), fmt.Errorf("there are none for %s", r.Platform.OS),
			"build this variant on its own system"}
	}
	glibc := r.Glibc
	if glibc.IsZero() {
		glibc = DefaultGlibc
	}
	overlay, err := s.overlay(ctx)
	if err != nil {
		return nil, err
	}
	// The network, one large file and thousands of small ones: each keeps
	// another part of the machine busy.
	var zig, cxx, headers string
	var link *linkParts
	all, allCtx := errgroup.WithContext(ctx)
	all.Go(func() error {
		both, bothCtx := errgroup.WithContext(allCtx)
		both.Go(func() (err error) {
			zig, err = s.zig(bothCtx, r.Zig)
			return err
		})
		both.Go(func() (err error) {
			cxx, err = s.libstdcxx(bothCtx, r.Platform.Arch)
			return err
		})
		if err := both.Wait(); err != nil {
			return err
		}
		link = s.linkStubs(zig, cxx, r.Platform.Arch, glibc)
		return nil
	})
	if !r.Torch.IsZero() {
		all.Go(func() (err error) {
			headers, err = s.torchHeaders(allCtx, r.Torch, r.Platform)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	triple := targetTriple(r.Platform.Arch, glibc)
	env := map[string]string{"LC_ALL": "C"} // zig's caches are no part of a key: see LocalEnv
	base := []string{
		zig + "/zig", "c++", "-target", triple, "-nostdinc++",
		// In this order, and by -I: #include_next <stdlib.h> must still reach libc.
		"-I" + overlay, "-I" + cxx + "/c++", "-I" + cxx + "/c++-target",
		"-g0", "-fno-sanitize=all", "-fPIC",
		// zig refuses __DATE__; here it is the same each time, by SOURCE_DATE_EPOCH.
		"-Wno-date-time",
		// The closing slash keeps the right side from being resolved.
		"-ffile-prefix-map=" + VirtualRoot + "/=thox/",
	}
	kit := &Kit{
		Platform:         r.Platform,
		CXX:              Tool{base, env, fingerprint("cxx", path.Base(zig), path.Base(cxx), path.Base(overlay), triple)},
		LibstdcxxVersion: path.Base(cxx),
		link:             link,
	}
	runtime := ""
	if r.Compute.Backend == manifests.CUDA {
		if kit.CUDA, err = s.cuda(ctx, r, kit.CXX, hostParts{zig, cxx, overlay, glibc}); err != nil {
			return nil, err
		}
		runtime = kit.CUDA.runtime
	}
	parts := hostParts{zig, cxx, overlay, glibc}
	var more []string
	if libs := vendorLibraries(r.Compute.Backend); libs != nil {
		dir, err := s.vendorStubs(ctx, zig, triple, r.Compute.Backend)
		if err != nil {
			return nil, err
		}
		for _, lib := range libs {
			more = append(more, dir+"/"+lib)
		}
	}
	if r.Compute.Backend == manifests.ROCm {
		if kit.HIP, runtime, err = s.hip(ctx, r, parts); err != nil {
			return nil, err
		}
	}
	kit.Link = linker(zig, cxx, link.whole, runtime, env, r, more...)
	if r.Compute.Backend == manifests.XPU {
		if kit.SYCL, err = s.sycl(ctx, r, parts, kit); err != nil {
			return nil, err
		}
	}
	if !r.Torch.IsZero() {
		kit.addTorch(r.Torch, headers)
	}
	return kit, nil
}

// addTorch completes a kit with the headers of a torch release.
func (k *Kit) addTorch(torch manifests.Version, headers string) {
	k.TorchIncludes = []string{headers + "/include", headers + "/include/torch/csrc/api/include"}
	args := append([]string(nil), k.CXX.Args...)
	args = append(args, "-std="+TorchStandard(torch))
	for _, d := range k.TorchIncludes {
		args = append(args, "-I"+d)
	}
	k.TorchCXX = Tool{args, k.CXX.Env, fingerprint("torch-cxx", k.CXX.Fingerprint, path.Base(headers))}
}

// linker names torch's libraries, those of more among them, and the device
// runtime, which may be empty.
func linker(zig, cxx, stubs, runtime string, env map[string]string, r Request, more ...string) Linker {
	emulation := map[manifests.Arch]string{manifests.X86_64: "elf_x86_64", manifests.AArch64: "aarch64linux"}[r.Platform.Arch]
	args := []string{
		zig + "/zig", "ld.lld", "-m", emulation, "-shared", "--build-id=none", "--gc-sections", "-s",
		"-z", "now", "-z", "relro", "-z", "noexecstack", "--hash-style=gnu", "--eh-frame-hdr", "--no-undefined-version",
	}
	if r.Platform.Arch == manifests.AArch64 {
		// Kernels with 64 KiB pages must be able to map the segments.
		args = append(args, "-z", "max-page-size=65536")
	}
	// torch's own symbols stay undefined in the stubs and are checked against
	// the real exports afterwards.
	tail := []string{"--unresolved-symbols=ignore-all", "--version-script=" + stubs + "/torch/" + exportsMap, "--no-as-needed"}
	for _, lib := range torchLibraries(r.Compute.Backend) {
		tail = append(tail, stubs+"/torch/"+lib)
	}
	tail = append(append(tail, more...), "--as-needed")
	parts := []string{"link", path.Base(stubs), path.Base(cxx)}
	if runtime != "" {
		// The runtime itself is linked, not its static archive: torch has the
		// same library loaded, so a kernel shares the current device, the
		// errors and the captures of the process with torch, and stays small.
		tail = append(tail, runtime)
		entry, _, _ := strings.Cut(strings.TrimPrefix(runtime, VirtualRoot+"/"), "/")
		parts = append(parts, entry)
	}
	tail = append(tail, stubs+"/cxx/libstdc++.so.6", stubs+"/cxx/libgcc_s.so.1",
		"--exclude-libs", "ALL", cxx+"/lib/libstdc++.a")
	for _, lib := range glibcStubs {
		tail = append(tail, stubs+"/glibc/"+lib)
	}
	tail = append(tail, stubs+"/"+compilerRT)
	return Linker{Tool: Tool{args, env, fingerprint(parts...)}, tail: tail}
}
