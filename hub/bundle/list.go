package bundle

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/manifests"
)

// listVariant lists the files that belong to a variant. A link counts as the
// file that it leads to, which must lie inside.
func listVariant(dir string) ([]client.File, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	var out []client.File
	err = filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if e.IsDir() {
			if e.Name() == "__pycache__" && name != "." {
				return fs.SkipDir
			}
			return nil
		}
		if !lock.Covers(name) && name != manifests.SignatureFile {
			return nil
		}
		target, err := filepath.EvalSymlinks(p)
		if err != nil {
			return err
		}
		if target != real && !strings.HasPrefix(target, real+string(filepath.Separator)) {
			return fmt.Errorf("%s is a link that leaves the variant (to %s)", name, target)
		}
		st, err := os.Stat(target)
		if err != nil || !st.Mode().IsRegular() {
			return err // a link to a folder or something that is no file
		}
		if err := client.CheckPath(name); err != nil {
			return err
		}
		out = append(out, client.File{Path: name, Size: st.Size(), Open: client.OpenFile(target, st.Size())})
		return nil
	})
	slices.SortFunc(out, func(a, b client.File) int { return strings.Compare(a.Path, b.Path) })
	return out, err
}

// extras finds the card and the benchmarks.
func (b *Bundle) extras(dir string, opts Options) error {
	card := opts.Card
	if card == "" {
		card = filepath.Join(b.Root, "CARD.md")
	}
	switch st, err := os.Stat(card); {
	case err == nil && st.Mode().IsRegular():
		b.Card = &client.File{Path: "README.md", Size: st.Size(), Open: client.OpenFile(card, st.Size())}
	case opts.Card != "":
		return fmt.Errorf("card %s: expected a file", card)
	}
	folders := []string{opts.Benchmarks}
	if opts.Benchmarks == "" {
		folders = []string{filepath.Join(b.Root, "benchmarks"), filepath.Join(dir, "benchmarks")}
	}
	for _, folder := range folders {
		found, err := filepath.Glob(filepath.Join(folder, "benchmark*.py"))
		if err != nil {
			return fmt.Errorf("benchmarks: %w", err)
		}
		for _, p := range found {
			st, err := os.Lstat(p)
			if err != nil {
				return fmt.Errorf("benchmarks: %w", err)
			}
			if st.Mode().IsRegular() {
				b.Benchmarks = append(b.Benchmarks, client.File{Path: "benchmarks/" + filepath.Base(p), Size: st.Size(), Open: client.OpenFile(p, st.Size())})
			}
		}
		if len(found) > 0 {
			break
		}
	}
	return nil
}
