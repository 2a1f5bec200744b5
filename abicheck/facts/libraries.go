package facts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
	"github.com/thox-ai/thoxbuild/abicheck/policy"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

var libraryPass = rule.Pass{
	Name: "libraries",
	Run:  checkLibraries,
	Rules: []rule.Info{{
		ID: "NEEDED", Severity: rule.Error,
		Title: "needs a library that neither the system, torch nor the package has",
		Explain: `A needed library must be on every system of the manylinux policy, be one of
those that torch loads before the kernel (libtorch, libc10, the CUDA, ROCm and
XPU runtimes), or be in the same package. Anything else is found by luck.
libpython is never needed: an extension module takes Python's symbols from the
process.

Link the library statically, ship it, or drop the dependency.`,
	}, {
		ID: "OMP", Severity: rule.Error,
		Title: "loads two OpenMP runtimes",
		Explain: `Two OpenMP runtimes in one process keep two thread pools and may deadlock or
abort. torch ships libgomp.so.1; a kernel should use that one alone.`,
	}, {
		ID: "SONAME", Severity: rule.Note,
		Title: "has no SONAME although others link against it",
		Explain: `A shared library without SONAME is recorded in its users under the path that
the link command had, which the loader then looks for.`,
	}},
}

// provided matches libraries that torch, or the driver under it, has loaded
// before a kernel is.
var provided = regexp.MustCompile(`^(` + strings.Join([]string{
	`libtorch(_[a-z_]+)?`, `libc10(_[a-z]+)?`, `libshm`, `libcaffe2_nvrtc`, `libgomp`, `libtvm_ffi`,
	`libcuda`, `libcudart`, `libcublas(Lt)?`, `libcufft(w)?`, `libcurand`, `libcusparse(Lt)?`, `libcusolver(Mg)?`,
	`libcudnn[a-z_]*`, `libnccl`, `libnvrtc(-builtins)?`, `libnvJitLink`, `libnvToolsExt`, `libnvtx3interop`, `libcupti`, `libcufile(_rdma)?`,
	`libnvshmem[a-z_]*`, `libnvidia-ml`, `libnvperf_[a-z]+`, `libnpp[a-z]*`, `libnvjpeg`,
	`libamdhip64`, `librocblas`, `libhip[a-z]+`, `libMIOpen`, `librccl`, `librocsolver`, `librocfft`, `libroctx64`, `librocm_smi64`, `libhsa-runtime64`, `libamd_smi`, `libhipblaslt`,
	`libsycl`, `libze_loader`, `libOpenCL`, `libsvml`, `libimf`, `libintlc`, `libirng`, `libmkl_[a-z0-9_]+`, `libur_loader`, `libur_adapter_[a-z_]+`, `libtcm`, `libumf`, `libccl`, `libpti_view`,
	`libascendcl`, `libtorch_npu`, `libnnopbase`, `libopapi`,
}, "|") + `)(-[0-9a-f]{6,16})?\.so(\.[0-9.]+)?$`)

// dynamicLoader matches the loader itself, which C libraries list.
var dynamicLoader = regexp.MustCompile(`^ld-linux[-a-z0-9_]*\.so\.[12]$`)

var openMP = regexp.MustCompile(`^lib(gomp|i?omp5?)([-.].*)?$`)

func checkLibraries(_ context.Context, s *rule.Subject, _ *rule.Options) ([]rule.Finding, error) {
	if !linked(s) {
		return nil, nil
	}
	d, err := s.ELF.Dynamic()
	if err != nil {
		return nil, err
	}
	c := collect(s)
	if s.Want.Manylinux != "" {
		p, err := policy.FindManylinux(s.Want.Manylinux)
		if err != nil {
			return nil, err
		}
		for _, lib := range d.Needed {
			switch {
			case strings.HasPrefix(lib, "libpython"):
				c.add("NEEDED", rule.Error, fmt.Sprintf("needs %s: an extension module takes Python's symbols from the process that loads it", lib),
					"do not link with -lpython")
			case p.Library(lib), provided.MatchString(lib), dynamicLoader.MatchString(lib):
			case s.Package != nil && s.Package.Libraries[lib], besides(s, d, lib):
			default:
				c.add("NEEDED", rule.Error, fmt.Sprintf("needs %s, which is not promised by %s, not loaded by torch and not in the package", lib, p.Name),
					"link it statically or ship it beside the library")
			}
		}
	}
	runtimes := map[string]string{}
	for _, lib := range d.Needed {
		if m := openMP.FindStringSubmatch(lib); m != nil {
			runtimes[m[1]] = lib
		}
	}
	if len(runtimes) > 1 {
		var names []string
		for _, lib := range d.Needed {
			if openMP.MatchString(lib) {
				names = append(names, lib)
			}
		}
		c.add("OMP", rule.Error, "loads two OpenMP runtimes: "+strings.Join(names, " and "),
			"compile and link everything with one -fopenmp; torch ships libgomp.so.1")
	}
	if d.Soname == "" && strings.HasPrefix(s.Name, "lib") && !isExtension(s) {
		c.add("SONAME", rule.Note, "has no SONAME", "link with -Wl,-soname,"+s.Name)
	}
	return c.done(), nil
}

// besides reports whether a library lies where the file's own search path
// finds it: a folder such as numpy.libs next to the package that was given.
func besides(s *rule.Subject, d *elffile.Dynamic, lib string) bool {
	if s.Member != "" || strings.ContainsRune(lib, '/') {
		return false
	}
	for _, path := range append(slices.Clone(d.Runpath), d.Rpath...) {
		for _, e := range strings.SplitN(path, ":", 64) {
			rest, ok := strings.CutPrefix(e, "$ORIGIN")
			if !ok {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(s.File), rest, lib)); err == nil {
				return true
			}
		}
	}
	return false
}
