package remote

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// tool is a folder of tools as the protocol's tree.
type tool struct {
	name, dir string
	root      action.Digest
	blobs     []blob // directories and files
}

// tools are the trees that were made, each once.
type tools struct {
	mu    sync.Mutex
	trees map[string]*toolOnce // guarded by mu
}

type toolOnce struct {
	mu   sync.Mutex
	tree *tool // nil until it was made
}

// HereError says why an action can run on this machine only.
type HereError struct{ Reason string }

// Error implements error.
func (e *HereError) Error() string { return e.Reason }

// tree reads a folder once. The error is a HereError for one that another
// machine could not use.
func (e *Executor) tree(ctx context.Context, name string) (*tool, error) {
	e.tools.mu.Lock()
	once := e.tools.trees[name]
	if once == nil {
		if e.tools.trees == nil {
			e.tools.trees = map[string]*toolOnce{}
		}
		once = &toolOnce{}
		e.tools.trees[name] = once
	}
	e.tools.mu.Unlock()
	once.mu.Lock()
	defer once.mu.Unlock()
	if once.tree != nil {
		return once.tree, nil
	}
	dir, _, err := e.client.config.Tools(name)
	if err != nil {
		return nil, err
	}
	t, err := readTool(ctx, name, dir)
	if err == nil {
		once.tree = t
	}
	return t, err
}

// folder is a directory of a tool while it is read.
type folder struct {
	files   []*toolFile
	folders map[string]*folder
	links   []*repb.SymlinkNode
}

type toolFile struct {
	name, path string
	exec       bool
	digest     action.Digest
}

// readTool hashes a folder of tools.
func readTool(ctx context.Context, name, dir string) (*tool, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("tool %s: %w", name, err)
	}
	var all []*toolFile
	root, err := list(name, real, "", &all)
	if err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	const each = 64 // files of a headers' folder are small
	for part := range slices.Chunk(all, each) {
		group.Go(func() error {
			for _, f := range part {
				if err := ctx.Err(); err != nil {
					return err
				}
				var err error
				if f.digest, err = action.DigestFile(f.path); err != nil {
					return fmt.Errorf("tool %s: %w", name, err)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	t := &tool{name: name, dir: real}
	seen := map[action.Digest]bool{}
	for _, f := range all {
		if !seen[f.digest] {
			seen[f.digest] = true
			t.blobs = append(t.blobs, blob{f.digest, func() (io.ReadCloser, error) { return os.Open(f.path) }})
		}
	}
	t.root, err = t.encode(root, seen)
	return t, err
}

// list reads the names of a folder.
func list(name, root, rel string, all *[]*toolFile) (*folder, error) {
	entries, err := os.ReadDir(filepath.Join(root, rel))
	if err != nil {
		return nil, fmt.Errorf("tool %s: %w", name, err)
	}
	f := &folder{folders: map[string]*folder{}}
	for _, e := range entries { // sorted by name, as the protocol wants them
		at := filepath.Join(rel, e.Name())
		switch t := e.Type(); {
		case t.IsDir():
			if f.folders[e.Name()], err = list(name, root, at, all); err != nil {
				return nil, err
			}
		case t.IsRegular():
			fi, err := e.Info()
			if err != nil {
				return nil, fmt.Errorf("tool %s: %w", name, err)
			}
			file := &toolFile{name: e.Name(), path: filepath.Join(root, at), exec: fi.Mode()&0o111 != 0}
			f.files, *all = append(f.files, file), append(*all, file)
		case t == os.ModeSymlink:
			to, err := os.Readlink(filepath.Join(root, at))
			if err != nil {
				return nil, fmt.Errorf("tool %s: %w", name, err)
			}
			if filepath.IsAbs(to) || !filepath.IsLocal(filepath.Join(rel, to)) {
				return nil, &HereError{fmt.Sprintf("tool %s: %s lies outside the store", name, at)}
			}
			f.links = append(f.links, &repb.SymlinkNode{Name: e.Name(), Target: filepath.ToSlash(to)})
		default:
			return nil, &HereError{fmt.Sprintf("tool %s: %s is no file", name, at)}
		}
	}
	return f, nil
}

// encode writes a folder's messages and returns the digest of its own.
func (t *tool) encode(f *folder, seen map[action.Digest]bool) (action.Digest, error) {
	m := &repb.Directory{Symlinks: f.links}
	for _, file := range f.files {
		m.Files = append(m.Files, &repb.FileNode{Name: file.name, Digest: file.digest.Proto(), IsExecutable: file.exec})
	}
	for _, name := range sortedKeys(f.folders) {
		d, err := t.encode(f.folders[name], seen)
		if err != nil {
			return d, err
		}
		m.Directories = append(m.Directories, &repb.DirectoryNode{Name: name, Digest: d.Proto()})
	}
	b, err := marshal(m)
	if err != nil {
		return action.Digest{}, fmt.Errorf("tool %s: %w", t.name, err)
	}
	if !seen[b.digest] {
		seen[b.digest] = true
		t.blobs = append(t.blobs, b)
	}
	return b.digest, nil
}

// marshal makes a blob of a message, in its one canonical form.
func marshal(m proto.Message) (blob, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	return bytesBlob(b), err
}

func bytesBlob(b []byte) blob {
	return blob{action.DigestOf(b), func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(b))), nil }}
}
