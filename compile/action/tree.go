package action

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
)

// File is one file of an action's input tree.
type File struct {
	// Path is where the command finds it: relative to the working directory,
	// slash-separated, clean, and inside it.
	Path   string
	Digest Digest
	// Exec marks a program.
	Exec bool
}

// checkPath reports why p may not be part of an input tree or an output list.
// The protocol forbids the same, and a path that left the tree would let a
// manifest write anywhere.
func checkPath(p string) error {
	switch {
	case p == "":
		return fmt.Errorf("empty path")
	case strings.ContainsAny(p, "\\\x00"):
		return fmt.Errorf("path %q: backslashes and NUL are not allowed", p)
	case path.IsAbs(p) || path.Clean(p) != p || p == "." || p == ".." || strings.HasPrefix(p, "../"):
		return fmt.Errorf("path %q: expected a clean relative path inside the tree", p)
	}
	return nil
}

// dir is a directory while the tree is put together.
type dir struct {
	files map[string]File
	dirs  map[string]*dir
}

func newDir() *dir { return &dir{map[string]File{}, map[string]*dir{}} }

// child returns the directory at a slash-separated path below d, making it
// where needed.
func (d *dir) child(p string) (*dir, error) {
	if p == "." || p == "" {
		return d, nil
	}
	for name := range strings.SplitSeq(p, "/") {
		if _, isFile := d.files[name]; isFile {
			return nil, fmt.Errorf("path %q: %q is a file and a folder", p, name)
		}
		next := d.dirs[name]
		if next == nil {
			next = newDir()
			d.dirs[name] = next
		}
		d = next
	}
	return d, nil
}

// checkOutput reports an input that lies in the way of an output. The protocol
// makes the folders of outputs before the command runs, so such an input would
// fail late and with the server's words.
func (d *dir) checkOutput(p string) error {
	for name := range strings.SplitSeq(p, "/") {
		if _, ok := d.files[name]; ok {
			return fmt.Errorf("output %q: the input %q lies in its way", p, name)
		}
		if d = d.dirs[name]; d == nil {
			return nil
		}
	}
	return fmt.Errorf("output %q: is a folder of inputs", p)
}

// buildTree encodes files as the protocol's Merkle tree of Directory messages
// and adds each message to blobs. It returns the root's digest. The order of
// files does not matter; the same path twice must carry the same content.
func buildTree(files []File, outputs []string, blobs map[Digest][]byte) (Digest, error) {
	root := newDir()
	for _, f := range files {
		if err := checkPath(f.Path); err != nil {
			return Digest{}, fmt.Errorf("input: %w", err)
		}
		parent, err := root.child(path.Dir(f.Path))
		if err != nil {
			return Digest{}, fmt.Errorf("input: %w", err)
		}
		name := path.Base(f.Path)
		if old, ok := parent.files[name]; ok && old != f {
			return Digest{}, fmt.Errorf("input %q: two different files at one path", f.Path)
		}
		if _, ok := parent.dirs[name]; ok {
			return Digest{}, fmt.Errorf("input %q: is a file and a folder", f.Path)
		}
		parent.files[name] = f
	}
	for _, o := range outputs {
		if err := root.checkOutput(o); err != nil {
			return Digest{}, err
		}
	}
	return encodeDir(root, blobs)
}

func encodeDir(d *dir, blobs map[Digest][]byte) (Digest, error) {
	msg := &repb.Directory{}
	for name, f := range d.files {
		msg.Files = append(msg.Files, &repb.FileNode{Name: name, Digest: f.Digest.Proto(), IsExecutable: f.Exec})
	}
	for name, sub := range d.dirs {
		digest, err := encodeDir(sub, blobs)
		if err != nil {
			return Digest{}, err
		}
		msg.Directories = append(msg.Directories, &repb.DirectoryNode{Name: name, Digest: digest.Proto()})
	}
	slices.SortFunc(msg.Files, func(a, b *repb.FileNode) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(msg.Directories, func(a, b *repb.DirectoryNode) int { return cmp.Compare(a.Name, b.Name) })
	return addMessage(msg, blobs)
}
