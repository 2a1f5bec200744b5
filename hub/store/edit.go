package store

import (
	"fmt"
	"strings"
)

// OpKind says what one operation of a commit does.
type OpKind int

// The operations, applied in the order in which the client sent them.
const (
	PutFile OpKind = iota
	DeleteFile
	DeleteFolder
)

// Op is one change of a commit.
type Op struct {
	Kind OpKind
	Path string
	// Blob is the content of PutFile, or the pointer of an LFS file.
	Blob ID
}

// node is a tree that is being edited; folders are read when they are entered.
type node struct {
	id      ID // of the stored tree, zero when new
	loaded  bool
	dirty   bool
	entries map[string]*item
}

type item struct {
	dir *node // nil for a file
	id  ID
}

func (n *node) load(o *objects) error {
	if n.loaded {
		return nil
	}
	n.entries = map[string]*item{}
	n.loaded = true
	if n.id.IsZero() {
		return nil
	}
	data, err := o.read(n.id, TreeObject)
	if err != nil {
		return err
	}
	list, err := decodeTree(data)
	if err != nil {
		return err
	}
	for _, e := range list {
		it := &item{id: e.ID}
		if e.Dir {
			it.dir = &node{id: e.ID}
		}
		n.entries[e.Name] = it
	}
	return nil
}

// apply changes the tree by one operation.
func (n *node) apply(o *objects, op Op) error {
	path := op.Path
	if op.Kind == DeleteFolder {
		path = strings.TrimSuffix(path, "/")
	}
	if err := CheckPath(path); err != nil {
		return err
	}
	err := n.edit(o, strings.Split(path, "/"), op)
	if err != nil {
		return fmt.Errorf("%s: %w", clip(path), err)
	}
	return nil
}

func (n *node) edit(o *objects, segs []string, op Op) error {
	if err := n.load(o); err != nil {
		return err
	}
	it := n.entries[segs[0]]
	if len(segs) > 1 {
		if it == nil || it.dir == nil {
			if op.Kind != PutFile {
				return fmt.Errorf("a file with this name doesn't exist: %w", ErrEntryNotFound)
			}
			if it != nil {
				return fmt.Errorf("%w path: %q is a file, not a folder", ErrInvalid, segs[0])
			}
			it = &item{dir: &node{loaded: true, dirty: true, entries: map[string]*item{}}}
			n.entries[segs[0]] = it
		}
		if err := it.dir.edit(o, segs[1:], op); err != nil {
			return err
		}
		n.dirty = true
		if len(it.dir.entries) == 0 {
			delete(n.entries, segs[0]) // git has no empty folders
		}
		return nil
	}
	switch op.Kind {
	case PutFile:
		if it != nil && it.dir != nil {
			return fmt.Errorf("%w path: %q is a folder", ErrInvalid, segs[0])
		}
		n.entries[segs[0]] = &item{id: op.Blob}
	case DeleteFile:
		if it == nil || it.dir != nil {
			return fmt.Errorf("a file with this name doesn't exist: %w", ErrEntryNotFound)
		}
		delete(n.entries, segs[0])
	case DeleteFolder:
		if it == nil || it.dir == nil {
			return fmt.Errorf("a folder with this name doesn't exist: %w", ErrEntryNotFound)
		}
		delete(n.entries, segs[0])
	}
	n.dirty = true
	return nil
}

// write stores the changed trees through add and returns the root's id.
func (n *node) write(add func(Kind, []byte) (ID, error)) (ID, error) {
	if !n.dirty && !n.id.IsZero() {
		return n.id, nil
	}
	var list []TreeEntry
	for name, it := range n.entries {
		e := TreeEntry{Name: name, ID: it.id}
		if it.dir != nil {
			id, err := it.dir.write(add)
			if err != nil {
				return ID{}, err
			}
			e.Dir, e.ID = true, id
		}
		list = append(list, e)
	}
	return add(TreeObject, encodeTree(list))
}

// editTree applies ops to the tree base, which may be zero.
func editTree(o *objects, base ID, ops []Op) (*node, error) {
	root := &node{id: base, dirty: base.IsZero()}
	if err := root.load(o); err != nil {
		return nil, err
	}
	for _, op := range ops {
		if err := root.apply(o, op); err != nil {
			return nil, err
		}
	}
	return root, nil
}
