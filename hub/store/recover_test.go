package store

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"
)

// TestPullRequestCutOff stops the store, for good, before each single step of
// opening and of merging a pull request. After the restart a pull request is
// there whole or not at all, a merge is done or not begun, and doing it again
// makes no second commit.
func TestPullRequestCutOff(t *testing.T) {
	for _, what := range []string{"open", "merge"} {
		t.Run(what, func(t *testing.T) {
			steps := cutOff(t, what, 1<<30) // fails nothing and counts
			for n := range steps {
				cutOff(t, what, n)
			}
			t.Logf("%d steps", steps)
			if steps < 10 {
				t.Errorf("only %d steps: the fault hook is not reached", steps)
			}
		})
	}
}

func cutOff(t *testing.T, what string, at int) (count int) {
	dir := t.TempDir()
	armed := false
	s, err := Open(dir, Options{Fault: func(op, path string) error {
		if !armed {
			return nil
		}
		if count++; count > at { // dead: nothing works any more
			return syscall.EIO
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	r := create(t, s)
	base := mustPut(t, r, "", "base", content(0))
	if what == "merge" {
		if _, err := openPR(r); err != nil {
			t.Fatal(err)
		}
	}
	armed = true
	var opErr error
	if what == "open" {
		_, opErr = openPR(r)
	} else {
		_, opErr = r.Merge(1, "t")
	}
	armed = false
	if opErr != nil && !errors.Is(opErr, syscall.EIO) {
		t.Fatalf("step %d: %v", at, opErr)
	}
	if opErr == nil && at < count {
		t.Errorf("step %d failed and nobody was told", at)
	}
	s.Close()

	if s, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if r, err = s.Repo(Kernel, "thox-ai/k"); err != nil {
		t.Fatal(err)
	}
	clean(t, s)
	list, err := r.Discussions()
	if err != nil {
		t.Fatal(err)
	}
	refs, err := r.Refs("refs/pr/")
	if err != nil || len(refs) != len(list) {
		t.Fatalf("step %d: %d references for %d pull requests, %v", at, len(refs), len(list), err)
	}
	if opErr == nil && len(list) != 1 {
		t.Fatalf("step %d: a pull request that was reported is gone", at)
	}
	if len(list) == 0 {
		if _, err := openPR(r); err != nil {
			t.Fatal(err)
		}
	}
	d, err := r.Discussion(1)
	if err != nil {
		t.Fatal(err)
	}
	head := mustResolve(t, r, "main")
	if merged := d.Status == "merged"; merged != (head != base) || merged && d.MergeCommit != head.String() {
		t.Fatalf("step %d: pull request is %s as %s, main at %s", at, d.Status, d.MergeCommit, head)
	}
	if d.Status != "merged" {
		if d, err = r.Merge(1, "t"); err != nil {
			t.Fatal(err)
		}
	}
	log, _, err := r.Log(mustResolve(t, r, "main"), 0, 10)
	if err != nil || len(log) != 3 {
		t.Errorf("step %d: %d commits on main, %v; want 3", at, len(log), err)
	}
	if _, err := r.Merge(1, "t"); !errors.Is(err, ErrInvalid) {
		t.Errorf("step %d: merged twice: %v", at, err)
	}
	return count
}

func openPR(r *Repo) (Discussion, error) {
	st, err := r.Stage()
	if err != nil {
		return Discussion{}, err
	}
	defer st.Close()
	id, err := st.AddBlob(fmt.Append(nil, "better"))
	if err != nil {
		return Discussion{}, err
	}
	_, d, err := st.OpenWith(CommitRequest{Ref: "refs/heads/main", Author: "t", Time: time.Unix(1e9, 0), Summary: "Better",
		Ops: []Op{{Kind: PutFile, Path: "n2", Blob: id}}})
	return d, err
}
