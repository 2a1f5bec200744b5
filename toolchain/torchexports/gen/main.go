// Command gen makes the export tables of package torchexports from the wheels
// on the package index. For each release it reads about 130 MB for the CPU
// libraries, 330 MB for those of CUDA and 80 MB for those of macOS.
package main

import (
	"context"
	"debug/elf"
	"debug/macho"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/toolchain"
	"github.com/thox-ai/thoxbuild/toolchain/torchexports"
)

func main() {
	out := flag.String("out", "tables", "folder of the tables")
	releases := flag.String("torch", "2.11,2.12,2.13,2.14,2.15", "torch releases")
	platforms := flag.String("platform", "x86_64-linux,aarch64-linux,aarch64-darwin", "platforms")
	backends := flag.String("backend", "cpu,cuda", "which libraries")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for _, r := range strings.Split(*releases, ",") {
		for _, p := range strings.Split(*platforms, ",") {
			arch, system, _ := strings.Cut(p, "-")
			platform := manifests.Platform{Arch: manifests.Arch(arch), OS: manifests.OS(system)}
			for _, b := range strings.Split(*backends, ",") {
				if platform.OS == manifests.Darwin && manifests.Backend(b) == manifests.CUDA {
					continue
				}
				if err := generate(ctx, *out, manifests.MustVersion(r), platform, manifests.Backend(b)); err != nil {
					log.Fatalf("torch %s %s %s: %v", r, p, b, err)
				}
			}
		}
	}
}

func generate(ctx context.Context, out string, torch manifests.Version, platform manifests.Platform, backend manifests.Backend) error {
	tmp, err := os.MkdirTemp("", "torchexports-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	s, err := toolchain.Open(toolchain.Options{Dir: filepath.Join(tmp, "store")})
	if err != nil {
		return err
	}
	// read hands over one member of the wheel, and says which release it is of.
	read := func(member string, use func(*os.File) error) (release string, err error) {
		f, err := os.Create(filepath.Join(tmp, "member"))
		if err != nil {
			return "", err
		}
		defer f.Close()
		if release, err = s.TorchMember(ctx, torch, platform, member, f); err == nil {
			err = use(f)
		}
		return release, err
	}
	var names []string
	var release string
	for _, lib := range torchexports.Libraries(backend, platform.OS) {
		release, err = read("torch/lib/"+lib, func(f *os.File) error {
			list := exported
			if platform.OS == manifests.Darwin {
				list = exportedMachO
			}
			more, err := list(f)
			names = append(names, more...)
			return err
		})
		if err != nil {
			return err
		}
	}
	compute := manifests.Compute{Backend: backend}
	if backend == manifests.CUDA {
		_, err := read("torch-"+release+".dist-info/METADATA", func(f *os.File) error {
			compute.Version, err = toolkitOf(f)
			return err
		})
		if err != nil {
			return err
		}
	}
	e := torchexports.New(names)
	fmt.Printf("torch %s %s %s: %d names\n", release, compute, platform, e.Len())
	return renameio.WriteFile(filepath.Join(out, torchexports.FileName(torch, compute, platform)), e.Bytes(), 0o644)
}

// toolkit is the requirement that tells which CUDA a torch wheel is built with.
var toolkit = regexp.MustCompile(`(?m)^Requires-Dist: cuda-toolkit\[[^]]*\]==(\d+)\.(\d+)\.`)

func toolkitOf(metadata *os.File) (manifests.Version, error) {
	b, err := os.ReadFile(metadata.Name())
	if err != nil {
		return manifests.Version{}, err
	}
	m := toolkit.FindSubmatch(b)
	if m == nil {
		return manifests.Version{}, errors.New("the wheel's METADATA requires no cuda-toolkit, so its CUDA is not known")
	}
	return manifests.ParseVersion(string(m[1]) + "." + string(m[2]))
}

// exported lists what a library defines for others.
func exported(f *os.File) ([]string, error) {
	lib, err := elf.NewFile(f)
	if err != nil {
		return nil, err
	}
	syms, err := lib.DynamicSymbols()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range syms {
		if s.Section != elf.SHN_UNDEF && elf.ST_BIND(s.Info) != elf.STB_LOCAL {
			names = append(names, s.Name)
		}
	}
	return names, nil
}

// exportedMachO is the same of a library of macOS, with names as C has them.
func exportedMachO(f *os.File) ([]string, error) {
	const external, private = 0x01, 0x10 // N_EXT, N_PEXT
	lib, err := macho.NewFile(f)
	if err != nil {
		return nil, err
	}
	if lib.Symtab == nil {
		return nil, errors.New("the library has no symbol table")
	}
	var names []string
	for _, s := range lib.Symtab.Syms {
		if s.Sect != 0 && s.Type&external != 0 && s.Type&private == 0 {
			names = append(names, strings.TrimPrefix(s.Name, "_"))
		}
	}
	return names, nil
}
