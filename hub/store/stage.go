package store

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Stage holds the objects of a commit that is being received. Nothing of it is
// visible until Commit, and nothing of it stays after Close.
type Stage struct {
	r    *Repo
	pack *packWriter
	done bool
}

// Stage begins a commit. Close must follow.
func (r *Repo) Stage() (*Stage, error) {
	w, err := newPackWriter(r.s.disk)
	if err != nil {
		return nil, err
	}
	r.keepMu.RLock()
	return &Stage{r: r, pack: w}, nil
}

// Close drops what has not been committed.
func (st *Stage) Close() {
	if !st.done {
		st.done = true
		st.pack.t.discard()
		st.r.keepMu.RUnlock()
	}
}

// AddBlob stages a file's content.
func (st *Stage) AddBlob(data []byte) (ID, error) { return st.add(BlobObject, data) }

// AddPointer stages the pointer to an LFS object that the repository has.
func (st *Stage) AddPointer(p Pointer) (ID, error) {
	size, err := st.r.LFSSize(p.SHA256)
	if err != nil {
		return ID{}, err
	}
	if p.Size >= 0 && p.Size != size {
		return ID{}, fmt.Errorf("LFS object %s has %d bytes, not %d: %w", p.SHA256, size, p.Size, ErrInvalid)
	}
	p.Size = size
	return st.AddBlob(p.Encode())
}

func (st *Stage) add(k Kind, data []byte) (ID, error) {
	if id := HashObject(k, data); st.r.objs.has(id) {
		return id, nil
	}
	return st.pack.add(k, data)
}

// CommitRequest says what a commit does and where.
type CommitRequest struct {
	// Ref is the full name of the branch or pull request.
	Ref string
	// Create lets Ref be new; it then starts at Base.
	Create bool
	// Base is where a new Ref starts; zero for an empty tree.
	Base ID
	// Parent, when not empty, is five or more digits of the commit that Ref
	// must still point to.
	Parent string
	// Merge is a second parent, or zero.
	Merge                ID
	Author               string
	Time                 time.Time
	Summary, Description string
	Ops                  []Op
}

// Commit applies the operations and moves the reference, all or nothing. When
// the same request was applied before and its answer lost, it returns the
// commit that it made then.
func (st *Stage) Commit(req CommitRequest) (ID, error) {
	if st.done {
		return ID{}, errors.New("stage used twice")
	}
	if err := req.check(); err != nil {
		return ID{}, err
	}
	st.r.refMu.Lock()
	defer st.r.refMu.Unlock()
	return st.commitLocked(req)
}

func (st *Stage) commitLocked(req CommitRequest) (ID, error) {
	head, err := st.r.ref(req.Ref)
	fresh := false
	if errors.Is(err, ErrRevisionNotFound) && req.Create {
		head, fresh, err = req.Base, true, nil
	}
	if err != nil {
		return ID{}, err
	}
	parent := ""
	if !head.IsZero() {
		parent = head.String()
	}
	if !fresh && head.IsZero() {
		return ID{}, fmt.Errorf("%s: %w", req.Ref, ErrRevisionNotFound)
	}
	if req.Parent != "" && !strings.HasPrefix(parent, req.Parent) {
		if id, ok := st.repeated(head, req); ok {
			return id, nil
		}
		return ID{}, fmt.Errorf("%s is at %s, not at %s: %w", req.Ref, parent, clip(req.Parent), ErrStale)
	}
	var base ID
	if !head.IsZero() {
		c, err := st.r.Commit(head)
		if err != nil {
			return ID{}, err
		}
		base = c.Tree
	}
	root, err := editTree(st.r.objs, base, req.Ops)
	if err != nil {
		// A repeated request may delete what it has deleted already.
		if id, ok := st.repeated(head, req); ok && req.Parent == "" {
			return id, nil
		}
		return ID{}, err
	}
	tree, err := root.write(st.add)
	if err != nil {
		return ID{}, err
	}
	if tree == base && req.Parent == "" && !fresh {
		if id, ok := st.repeated(head, req); ok {
			return id, nil
		}
	}
	c := &Commit{Tree: tree, Author: authorName(req.Author), Time: req.Time.UTC(), Summary: req.Summary, Description: req.Description}
	if !head.IsZero() {
		c.Parents = append(c.Parents, head)
	}
	if !req.Merge.IsZero() {
		c.Parents = append(c.Parents, req.Merge)
	}
	id, err := st.add(CommitObject, c.encode())
	if err != nil {
		return ID{}, err
	}
	if err := st.flush(); err != nil {
		return ID{}, err
	}
	return id, st.r.setRef(req.Ref, id)
}

// repeated reports that head is what req made of head's parent.
func (st *Stage) repeated(head ID, req CommitRequest) (ID, bool) {
	if head.IsZero() {
		return ID{}, false
	}
	c, err := st.r.Commit(head)
	if err != nil || len(c.Parents) != 1 || c.Summary != req.Summary || c.Description != req.Description || c.Author != authorName(req.Author) {
		return ID{}, false
	}
	if req.Parent != "" && !strings.HasPrefix(c.Parents[0].String(), req.Parent) {
		return ID{}, false
	}
	p, err := st.r.Commit(c.Parents[0])
	if err != nil {
		return ID{}, false
	}
	root, err := editTree(st.r.objs, p.Tree, req.Ops)
	if err != nil {
		return ID{}, false
	}
	tree, err := root.write(func(k Kind, data []byte) (ID, error) { return HashObject(k, data), nil })
	return head, err == nil && tree == c.Tree
}

// flush makes the staged objects readable.
func (st *Stage) flush() error {
	if len(st.pack.items) == 0 {
		return nil
	}
	if _, err := st.pack.finish(st.r.objs.dir); err != nil {
		return err
	}
	return st.r.objs.reload()
}

func (req *CommitRequest) check() error {
	if err := checkRef(req.Ref); err != nil {
		return err
	}
	req.Summary = strings.TrimSpace(req.Summary)
	req.Description = strings.TrimSpace(strings.ReplaceAll(req.Description, "\r\n", "\n"))
	if req.Summary == "" {
		return fmt.Errorf("%w commit: the summary is empty", ErrInvalid)
	}
	if strings.ContainsAny(req.Summary, "\x00\n\r") || strings.ContainsRune(req.Description, 0) {
		return fmt.Errorf("%w commit: the summary must be one line, and no NUL anywhere", ErrInvalid)
	}
	if req.Parent != "" && (len(req.Parent) < 5 || len(req.Parent) > 40 || !isHex(req.Parent)) {
		return fmt.Errorf("%w parent commit %q: want 5 to 40 lower-case hex digits", ErrInvalid, clip(req.Parent))
	}
	return nil
}

// authorName keeps a name from breaking git's author line.
func authorName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r == '<' || r == '>' {
			return -1
		}
		return r
	}, s)
	if s = strings.TrimSpace(s); s == "" {
		return "local"
	}
	return s
}
