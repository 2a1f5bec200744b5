package toolchain

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"

	"github.com/thox-ai/thoxbuild/manifests"
)

// hostCXX is where an installed g++ keeps its C++ library for one target.
type hostCXX struct {
	Version       string // "12"
	Headers       string // the generic headers
	TargetHeaders string // bits/c++config.h
	Archive       string // libstdc++.a
	Shared        string // libstdc++.so.6
	GCCShared     string // libgcc_s.so.1
}

// findHostCXX looks in the places of Debian and Fedora, natively and for
// Debian's cross packages, and takes the newest version that is complete.
func findHostCXX(root string, arch manifests.Arch) (hostCXX, error) {
	triple := string(arch) + "-linux-gnu"
	fedora := string(arch) + "-redhat-linux"
	type layout struct{ headers, target, gcc, lib string }
	layouts := []layout{
		{"usr/include/c++", "usr/include/" + triple + "/c++/%s", "usr/lib/gcc/" + triple, "usr/lib/" + triple},
		{"usr/" + triple + "/include/c++", "usr/" + triple + "/include/c++/%s/" + triple, "usr/lib/gcc-cross/" + triple, "usr/" + triple + "/lib"},
		{"usr/include/c++", "usr/include/c++/%s/" + fedora, "usr/lib/gcc/" + fedora, "usr/lib64"},
	}
	var best hostCXX
	bestNum := -1
	for _, l := range layouts {
		versions, _ := filepath.Glob(filepath.Join(root, l.headers, "*"))
		for _, dir := range versions {
			v := filepath.Base(dir)
			num, err := strconv.Atoi(v)
			if err != nil || num <= bestNum {
				continue
			}
			c := hostCXX{
				Version: v, Headers: dir,
				TargetHeaders: filepath.Join(root, fmt.Sprintf(l.target, v)),
				Archive:       filepath.Join(root, l.gcc, v, "libstdc++.a"),
				Shared:        filepath.Join(root, l.lib, "libstdc++.so.6"),
				GCCShared:     filepath.Join(root, l.lib, "libgcc_s.so.1"),
			}
			if c.complete() {
				best, bestNum = c, num
			}
		}
	}
	if bestNum < 0 {
		pkg := "g++"
		if arch != manifests.Arch(hostArch()) {
			pkg = "libstdc++-12-dev-" + map[manifests.Arch]string{manifests.AArch64: "arm64", manifests.X86_64: "amd64"}[arch] + "-cross"
		}
		return hostCXX{}, &Error{"find the C++ library of g++ for " + string(arch),
			errors.New("no complete set of libstdc++ headers and libraries is installed"),
			"install it: apt-get install " + pkg}
	}
	return best, nil
}

func (c hostCXX) complete() bool {
	for _, p := range []string{filepath.Join(c.TargetHeaders, "bits/c++config.h"), filepath.Join(c.Headers, "vector"), c.Archive, c.Shared, c.GCCShared} {
		if _, err := os.Stat(p); err != nil {
			return false
		}
	}
	return true
}

// libstdcxx copies the machine's C++ library into the store, so that commands
// name it by a path that means the same everywhere.
//
//	c++/  c++-target/  lib/{libstdc++.a,libstdc++.so.6,libgcc_s.so.1}
//
// It is looked for once: every kit needs it.
func (s *Store) libstdcxx(ctx context.Context, arch manifests.Arch) (string, error) {
	s.cxxMu.Lock()
	defer s.cxxMu.Unlock()
	if dir, ok := s.cxx[arch]; ok {
		return dir, nil
	}
	dir, err := s.copyLibstdcxx(ctx, arch)
	if err == nil {
		if s.cxx == nil {
			s.cxx = map[manifests.Arch]string{}
		}
		s.cxx[arch] = dir
	}
	return dir, err
}

func (s *Store) copyLibstdcxx(ctx context.Context, arch manifests.Arch) (string, error) {
	host, err := findHostCXX("/", arch)
	if err != nil {
		return "", err
	}
	parts := []struct{ from, to string }{
		{host.Headers, "c++"}, {host.TargetHeaders, "c++-target"},
		{host.Archive, "lib/libstdc++.a"}, {host.Shared, "lib/libstdc++.so.6"}, {host.GCCShared, "lib/libgcc_s.so.1"},
	}
	file := filepath.Join(s.dir, "locks", "libstdcxx-"+string(arch)+".json")
	read, stamp := s.now(), stampOf(host.Archive, host.Shared, host.GCCShared, host.Headers, filepath.Join(host.TargetHeaders, "bits/c++config.h"))
	if name, ok := readMemo(file, stamp); ok && name == filepath.Base(name) && isDir(filepath.Join(s.dir, "tools", name)) {
		return VirtualRoot + "/" + name, nil
	}
	h := sha256.New()
	for _, p := range parts {
		if err := walkFiles(ctx, p.from, func(rel string, b []byte) error {
			sum := sha256.Sum256(b)
			fmt.Fprintf(h, "%s/%s %x\n", p.to, rel, sum)
			return nil
		}); err != nil {
			return "", hinted("read the C++ library", err, "reinstall g++")
		}
	}
	name := fmt.Sprintf("libstdcxx-%s-%s-%x", host.Version, arch, h.Sum(nil)[:8])
	dir, err := s.entry(ctx, name, func(dir string) error {
		for _, p := range parts {
			err := walkFiles(ctx, p.from, func(rel string, b []byte) error {
				to := filepath.Join(dir, p.to, rel)
				if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
					return err
				}
				return os.WriteFile(to, b, 0o644)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		writeMemo(file, stamp, read, name)
	}
	return dir, err
}

// walkFiles calls fn for every regular file of a tree in sorted order, links
// followed; a plain file is a tree with one file and an empty path.
func walkFiles(ctx context.Context, root string, fn func(rel string, content []byte) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	fi, err := os.Stat(root)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		b, err := os.ReadFile(root)
		if err != nil {
			return err
		}
		return fn("", b)
	}
	var files []string
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, p)
		}
		return err
	})
	if err != nil {
		return err
	}
	sort.Strings(files)
	for _, p := range files {
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		if err := fn(rel, b); err != nil {
			return err
		}
	}
	return nil
}
