package toolchain

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"

	"github.com/thox-ai/thoxbuild/manifests"
)

// macOSKit is the kit of a variant for macOS: Xcode's compilers, run through
// xcrun, with torch's headers out of its macOS wheel. The programs are this
// machine's own; what identifies them is in the fingerprints.
//
// The deployment target and the flags of the Metal compiler are those of
// kernel-builder, so that both make libraries for the same systems.
func (s *Store) macOSKit(ctx context.Context, r Request) (*Kit, error) {
	if r.Platform.Arch != manifests.AArch64 {
		return nil, &Error{"choose compilers for " + r.Platform.String(), fmt.Errorf("torch's wheels for macOS are for Apple silicon only"),
			"build the aarch64-darwin variant"}
	}
	floor := r.Compute.MacOS()
	metal := r.Compute.Backend == manifests.Metal
	x, err := findXcode(ctx, metal, floor)
	if err != nil {
		return nil, err
	}
	stubs, err := s.macOSStubs(ctx)
	if err != nil {
		return nil, err
	}
	env := map[string]string{"LC_ALL": "C"}
	identity := fingerprint("xcode", x.sdk.String(), x.sdkBuild, x.clang, floor.String())
	clang := append(xcrun[:len(xcrun):len(xcrun)], "clang++", "-arch", "arm64", "-mmacosx-version-min="+floor.String())
	kit := &Kit{
		Platform: r.Platform,
		CXX: Tool{
			append(clang[:len(clang):len(clang)], "-ffile-prefix-map="+VirtualRoot+"/=thox/"),
			env, identity,
		},
		Link: Linker{
			// A bundle is what Python loads on macOS. What torch and Python
			// define is looked up when it is loaded, among what is loaded then.
			// One symbol is left for Python to find, see exportsScript.
			Tool: Tool{append(clang[:len(clang):len(clang)], "-bundle", "-undefined", "dynamic_lookup",
				"-Wl,-dead_strip", "-Wl,-x", "-Wl,-exported_symbol,_PyInit_*", "-Wl,-exported_symbol,_PyModExport_*"),
				env, fingerprint("link", identity, x.linker, path.Base(stubs))},
		},
	}
	for _, lib := range macOSLibraries {
		kit.Link.tail = append(kit.Link.tail, stubs+"/"+lib+".tbd")
	}
	if metal {
		kit.Link.tail = append(kit.Link.tail, "-framework", "Metal", "-framework", "Foundation")
		metalEnv := maps.Clone(env)
		maps.Copy(metalEnv, x.metalEnv())
		kit.Metal = &Tool{xcrun[:len(xcrun):len(xcrun)], metalEnv, fingerprint("metal", x.sdk.String(), x.sdkBuild, x.metal)}
	}
	if r.Torch.IsZero() {
		return kit, nil
	}
	headers, err := s.torchHeaders(ctx, r.Torch, r.Platform)
	if err != nil {
		return nil, err
	}
	kit.addTorch(r.Torch, headers)
	return kit, nil
}

// macOSLibraries are torch's libraries that an extension loads with itself. An
// extension that is imported before torch then fails with their names, and not
// with the first missing symbol.
var macOSLibraries = []string{"libtorch", "libtorch_cpu", "libc10"}

// macOSStubs makes the text files that stand for torch's libraries in a link:
// their names as dyld knows them and no symbol, as the empty libraries of
// linkStubs do on Linux. dyld takes a library of such a name that is loaded
// already, which torch's are, so the extension needs no LC_RPATH.
func (s *Store) macOSStubs(ctx context.Context) (string, error) {
	files := map[string]string{}
	parts := []string{"macos-stubs"}
	for _, lib := range macOSLibraries {
		files[lib+".tbd"] = fmt.Sprintf("--- !tapi-tbd\ntbd-version:     4\ntargets:         [ arm64-macos ]\ninstall-name:    '@rpath/%s.dylib'\n...\n", lib)
		parts = append(parts, files[lib+".tbd"])
	}
	return s.entry(ctx, "macos-link-"+fingerprint(parts...), func(dir string) error {
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				return err
			}
		}
		return nil
	})
}
