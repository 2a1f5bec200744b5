package command

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/thox-ai/thoxbuild/compile"
	"github.com/thox-ai/thoxbuild/matrix"
)

// deal splits the chosen variants into n shards by what they took in the last
// build, of which the cache's history knows, or by a guess. Variants that
// can't be built here cost nothing and stay in the lists.
func (g *globals) deal(picks []chosen, n int) ([][]matrix.Variant, []float64, error) {
	store, err := g.storeDir()
	if err != nil {
		return nil, nil, err
	}
	histories := map[string]*compile.History{}
	var all []matrix.Variant
	for _, p := range picks {
		all = append(all, p.variants...)
		if dir := p.kernel.Dir; histories[dir] == nil {
			histories[dir] = compile.OpenHistory(filepath.Join(store, "cache"), dir)
		}
	}
	shards, seconds := matrix.Deal(all, n, func(v matrix.Variant) []matrix.Part {
		if !v.Buildable {
			return nil
		}
		parts := histories[v.Kernel.Dir].Parts(v.Name.String())
		if len(parts) == 0 {
			return matrix.EstimateParts(v)
		}
		for i := range parts {
			parts[i].Name = v.Kernel.General.Name + " " + parts[i].Name
		}
		return parts
	})
	return shards, seconds, nil
}

// takeShard leaves one shard's variants in picks.
//
// The shards of one build have to agree, and a shard that ends changes the
// history that the next one would look at. So the first shard writes down who
// does what, under a digest of the sources; shards that run later on the same
// cache read that, and those on other machines compute the same from equal
// caches.
func (g *globals) takeShard(s matrix.Shard, picks []chosen) error {
	store, err := g.storeDir()
	if err != nil {
		return err
	}
	key, err := shardKey(s, picks)
	if err != nil {
		return err
	}
	file := filepath.Join(store, "cache", "history", "shards", key+".json")
	lists, ok := readShards(file, s.Count)
	if !ok {
		shards, _, err := g.deal(picks, s.Count)
		if err != nil {
			return err
		}
		lists = nil
		for _, vs := range shards {
			lists = append(lists, matrix.IDs(vs))
		}
		lists = recordShards(file, lists)
	}
	for i := range picks {
		picks[i].variants = matrix.VariantsOf(picks[i].variants, lists[s.Index-1])
	}
	return nil
}

// shardKey is a digest of what is dealt: the variants, and the sources whose
// change makes it another build.
func shardKey(s matrix.Shard, picks []chosen) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "shards 1\n%d\n", s.Count)
	for _, p := range picks {
		for _, name := range matrix.IDs(p.variants) {
			fmt.Fprintf(h, "variant %q\n", name)
		}
		files := []string{filepath.Base(p.kernel.File)}
		if t := p.kernel.Torch; t != nil {
			files = append(files, t.Src...)
		}
		for _, section := range p.kernel.Sections {
			files = append(files, section.Src...)
		}
		slices.Sort(files)
		for _, name := range slices.Compact(files) {
			f, err := os.Open(filepath.Join(p.kernel.Dir, filepath.FromSlash(name)))
			if errors.Is(err, fs.ErrNotExist) {
				continue // the build says what is missing
			}
			if err != nil {
				return "", err
			}
			fmt.Fprintf(h, "file %q\n", name)
			_, err = io.Copy(h, f)
			f.Close()
			if err != nil {
				return "", err
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:20], nil
}

// shardsKept is how long a record is kept that no build asked for.
const shardsKept = 30 * 24 * time.Hour

// recordShards writes the lists down, or returns those that another shard has
// written meanwhile. Old records are removed. A cache that can't be written is
// no failure here: then no shard changes its history either.
func recordShards(file string, lists [][]string) [][]string {
	dir := filepath.Dir(file)
	if os.MkdirAll(dir, 0o777) != nil {
		return lists
	}
	old, _ := os.ReadDir(dir)
	for _, e := range old {
		if fi, err := e.Info(); err == nil && time.Since(fi.ModTime()) > shardsKept {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	tmp, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return lists
	}
	defer os.Remove(tmp.Name())
	err = json.NewEncoder(tmp).Encode(lists)
	if errors.Join(err, tmp.Sync(), tmp.Close()) != nil {
		return lists
	}
	if err := os.Link(tmp.Name(), file); !errors.Is(err, fs.ErrExist) {
		return lists
	}
	if theirs, ok := readShards(file, len(lists)); ok {
		return theirs
	}
	os.Rename(tmp.Name(), file) // the one there is damaged
	return lists
}

func readShards(file string, n int) (lists [][]string, ok bool) {
	b, err := os.ReadFile(file)
	return lists, err == nil && json.Unmarshal(b, &lists) == nil && len(lists) == n
}
