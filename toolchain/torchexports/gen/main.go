// Command gen makes the export tables of package torchexports from the wheels
// on the package index. It reads about 130 MB for each release.
package main

import (
	"context"
	"debug/elf"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/toolchain"
	"github.com/thox-ai/thoxbuild/toolchain/torchexports"
)

func main() {
	out := flag.String("out", "tables", "folder of the tables")
	releases := flag.String("torch", "2.11,2.12,2.13,2.14,2.15", "torch releases")
	archs := flag.String("arch", "x86_64,aarch64", "architectures")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for _, r := range strings.Split(*releases, ",") {
		for _, a := range strings.Split(*archs, ",") {
			if err := generate(ctx, *out, manifests.MustVersion(r), manifests.Arch(a)); err != nil {
				log.Fatalf("torch %s %s: %v", r, a, err)
			}
		}
	}
}

func generate(ctx context.Context, out string, torch manifests.Version, arch manifests.Arch) error {
	tmp, err := os.MkdirTemp("", "torchexports-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	s, err := toolchain.Open(toolchain.Options{Dir: filepath.Join(tmp, "store")})
	if err != nil {
		return err
	}
	var names []string
	var release string
	for _, lib := range torchexports.Libraries {
		f, err := os.Create(filepath.Join(tmp, "lib"))
		if err != nil {
			return err
		}
		release, err = s.TorchMember(ctx, torch, arch, "torch/lib/"+lib, f)
		if err == nil {
			var more []string
			more, err = exported(f)
			names = append(names, more...)
		}
		f.Close()
		if err != nil {
			return err
		}
	}
	e := torchexports.New(names)
	platform := manifests.Platform{Arch: arch, OS: manifests.Linux}
	fmt.Printf("torch %s %s: %d names\n", release, platform, e.Len())
	return renameio.WriteFile(filepath.Join(out, torchexports.FileName(torch, platform)), e.Bytes(), 0o644)
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
