package store

import (
	"errors"
	"fmt"
	"strings"
)

// recover finishes or undoes the changes of pull requests that a killed
// process left half made, before anybody sees the repository. Such a change
// touches two files, a reference and a thread, and the answer is only given
// when both are written. What cannot be read is left for fsck to name.
func (r *Repo) recover() error {
	r.refMu.Lock()
	defer r.refMu.Unlock()
	list, err := r.Discussions()
	if err != nil {
		return nil
	}
	threads := map[string]bool{}
	for _, d := range list {
		threads[d.Ref()] = true
		if !d.PullRequest || d.Status == "merged" || d.Status == "closed" {
			continue
		}
		if id, ok, err := r.mergedAs(d); err == nil && ok {
			d.Status, d.MergeCommit = "merged", id.String()
			if err := r.putDiscussion(d); err != nil {
				return err
			}
		}
	}
	refs, err := r.Refs("refs/pr/")
	if err != nil {
		return nil
	}
	for _, ref := range refs {
		if !threads[ref.Name] {
			// Opening it was never answered, so the client will ask again.
			if err := r.s.disk.remove(r.refPath(ref.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// mergedAs finds the commit that merged an unmerged pull request, which is
// there if the merge was interrupted after it moved the base.
func (r *Repo) mergedAs(d Discussion) (ID, bool, error) {
	head, err := r.ref(d.Ref())
	if errors.Is(err, ErrRevisionNotFound) {
		return ID{}, false, nil
	}
	if err != nil {
		return ID{}, false, err
	}
	at, err := r.ref(d.Base)
	if errors.Is(err, ErrRevisionNotFound) {
		return ID{}, false, nil
	}
	if err != nil {
		return ID{}, false, err
	}
	for !at.IsZero() && at.String() != d.BaseCommit {
		c, err := r.Commit(at)
		if err != nil {
			return ID{}, false, err
		}
		if len(c.Parents) == 2 && c.Parents[1] == head && strings.HasSuffix(c.Summary, fmt.Sprintf(" (#%d)", d.Num)) {
			return at, true, nil
		}
		if at = (ID{}); len(c.Parents) > 0 {
			at = c.Parents[0]
		}
	}
	return ID{}, false, nil
}
