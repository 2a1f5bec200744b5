package store

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Discussion is a thread, or a pull request whose commits are on refs/pr/Num.
type Discussion struct {
	Num         int       `json:"num"`
	Title       string    `json:"title"`
	Description string    `json:"description,omitempty"`
	Author      string    `json:"author"`
	Status      string    `json:"status"` // draft, open, merged or closed
	PullRequest bool      `json:"pullRequest"`
	Base        string    `json:"base,omitempty"` // full ref that it wants to change
	BaseCommit  string    `json:"baseCommit,omitempty"`
	MergeCommit string    `json:"mergeCommit,omitempty"`
	CreatedAt   time.Time `json:"createdAt"`
}

// Ref is the pull request's reference.
func (d Discussion) Ref() string { return "refs/pr/" + strconv.Itoa(d.Num) }

func (r *Repo) discussionPath(n int) string {
	return filepath.Join(r.dir, "discussions", strconv.Itoa(n)+".json")
}

func (r *Repo) putDiscussion(d Discussion) error {
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	return r.s.disk.writeFile(r.discussionPath(d.Num), append(b, '\n'), 0o644)
}

// Discussion reads one thread.
func (r *Repo) Discussion(n int) (Discussion, error) {
	var d Discussion
	err := readJSON(r.discussionPath(n), &d)
	if os.IsNotExist(err) {
		return d, fmt.Errorf("discussion %d: %w", n, ErrEntryNotFound)
	}
	return d, err
}

// Discussions lists all threads, newest first.
func (r *Repo) Discussions() ([]Discussion, error) {
	names, err := filepath.Glob(filepath.Join(r.dir, "discussions", "*.json"))
	if err != nil {
		return nil, err
	}
	var list []Discussion
	for _, name := range names {
		n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(name), ".json"))
		if err != nil {
			continue
		}
		d, err := r.Discussion(n)
		if err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Num > list[j].Num })
	return list, nil
}

// nextNum is a number that no thread and no reference has. r.refMu is held.
func (r *Repo) nextNum() (int, error) {
	n := 1
	list, err := r.Discussions()
	if err != nil {
		return 0, err
	}
	if len(list) > 0 {
		n = list[0].Num + 1
	}
	refs, err := r.Refs("refs/pr/")
	for _, ref := range refs {
		if m, err := strconv.Atoi(ref.Short()); err == nil && m >= n {
			n = m + 1
		}
	}
	return n, err
}

// Open starts a thread; a pull request begins at the head of its base.
func (r *Repo) Open(d Discussion) (Discussion, error) {
	r.keepMu.RLock()
	defer r.keepMu.RUnlock()
	r.refMu.Lock()
	defer r.refMu.Unlock()
	n, err := r.nextNum()
	if err != nil {
		return d, err
	}
	d.Num, d.CreatedAt, d.Status = n, time.Now().UTC().Truncate(time.Millisecond), "open"
	if d.PullRequest {
		head, err := r.ref(d.Base)
		if err != nil {
			return d, err
		}
		d.BaseCommit, d.Status = head.String(), "draft"
		if err := r.setRef(d.Ref(), head); err != nil {
			return d, err
		}
	}
	return d, r.putDiscussion(d)
}

// OpenWith commits onto a new pull request against req.Ref and returns both.
func (st *Stage) OpenWith(req CommitRequest) (ID, Discussion, error) {
	var d Discussion
	if err := req.check(); err != nil {
		return ID{}, d, err
	}
	r := st.r
	r.refMu.Lock()
	defer r.refMu.Unlock()
	base, err := r.ref(req.Ref)
	if err != nil {
		return ID{}, d, err
	}
	if req.Parent != "" {
		if base, err = r.Resolve(req.Parent); err != nil {
			return ID{}, d, err
		}
	}
	n, err := r.nextNum()
	if err != nil {
		return ID{}, d, err
	}
	d = Discussion{
		Num: n, Title: req.Summary, Description: req.Description, Author: authorName(req.Author), Status: "open",
		PullRequest: true, Base: req.Ref, BaseCommit: base.String(), CreatedAt: time.Now().UTC().Truncate(time.Millisecond),
	}
	req.Ref, req.Create, req.Base, req.Parent = d.Ref(), true, base, ""
	id, err := st.commitLocked(req)
	if err != nil {
		return ID{}, d, err
	}
	return id, d, r.putDiscussion(d)
}

// SetStatus opens, closes or marks a thread.
func (r *Repo) SetStatus(n int, status string) (Discussion, error) {
	r.refMu.Lock()
	defer r.refMu.Unlock()
	d, err := r.Discussion(n)
	if err != nil {
		return d, err
	}
	if d.Status == "merged" || status != "open" && status != "closed" {
		return d, fmt.Errorf("%w: discussion %d is %s and cannot become %s", ErrInvalid, n, d.Status, clip(status))
	}
	d.Status = status
	return d, r.putDiscussion(d)
}

// Conflicts lists the files that the pull request and its base both changed,
// and the operations that would merge it.
func (r *Repo) Conflicts(d Discussion) (files []string, ops []Op, err error) {
	from, err := ParseID(d.BaseCommit)
	if err != nil {
		return nil, nil, err
	}
	var maps [3]map[string]ID
	theirs, err := r.ref(d.Ref())
	if err != nil {
		return nil, nil, err
	}
	ours, err := r.ref(d.Base)
	if err != nil {
		return nil, nil, err
	}
	for i, c := range []ID{from, ours, theirs} {
		list, err := r.List(c, "", true)
		if err != nil {
			return nil, nil, err
		}
		maps[i] = map[string]ID{}
		for _, e := range list {
			if !e.Dir {
				maps[i][e.Path] = e.ID
			}
		}
	}
	old, our, their := maps[0], maps[1], maps[2]
	paths := map[string]bool{}
	for p := range old {
		paths[p] = true
	}
	for p := range their {
		paths[p] = true
	}
	var puts []Op
	for p := range paths {
		switch {
		case their[p] == old[p] || their[p] == our[p]:
		case our[p] != old[p]:
			files = append(files, p)
		case their[p].IsZero():
			ops = append(ops, Op{Kind: DeleteFile, Path: p})
		default:
			puts = append(puts, Op{Kind: PutFile, Path: p, Blob: their[p]})
		}
	}
	sort.Strings(files)
	// Deletions go first, as a file may become a folder.
	return files, append(ops, puts...), nil
}

// Merge applies a pull request to its base as one commit with two parents.
func (r *Repo) Merge(n int, author string) (Discussion, error) {
	d, err := r.Discussion(n)
	if err != nil {
		return d, err
	}
	if !d.PullRequest || d.Status == "merged" || d.Status == "closed" {
		return d, fmt.Errorf("%w: discussion %d is no open pull request", ErrInvalid, n)
	}
	st, err := r.Stage()
	if err != nil {
		return d, err
	}
	defer st.Close()
	r.refMu.Lock()
	defer r.refMu.Unlock()
	// Read again under the lock: another merge may have been first, or an
	// earlier one may have been cut off after it moved the base.
	if d, err = r.Discussion(n); err != nil {
		return d, err
	}
	if d.Status == "merged" || d.Status == "closed" {
		return d, fmt.Errorf("%w: discussion %d is no open pull request", ErrInvalid, n)
	}
	if id, ok, err := r.mergedAs(d); err != nil {
		return d, err
	} else if ok {
		d.Status, d.MergeCommit = "merged", id.String()
		return d, r.putDiscussion(d)
	}
	files, ops, err := r.Conflicts(d)
	if err != nil {
		return d, err
	}
	if len(files) > 0 {
		return d, fmt.Errorf("merge %d: both sides changed %s: %w", n, strings.Join(files, ", "), ErrConflict)
	}
	head, err := r.ref(d.Ref())
	if err != nil {
		return d, err
	}
	id, err := st.commitLocked(CommitRequest{
		Ref: d.Base, Merge: head, Author: author, Time: time.Now(), Ops: ops,
		Summary: fmt.Sprintf("%s (#%d)", d.Title, n), Description: d.Description,
	})
	if err != nil {
		return d, err
	}
	d.Status, d.MergeCommit = "merged", id.String()
	return d, r.putDiscussion(d)
}
