package compile

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/thox-ai/thoxbuild/manifests"
)

// CommitOf says which commit the sources (absolute paths, sorted) are from; nil
// where there is none to name.
type CommitOf func(sources []string) *manifests.Commit

// GitCommit asks git for the commit of a kernel's folder: there is none when
// the folder is in no repository, has no commit yet, or there is no git. git
// runs while the caller goes on.
//
// The tree counts as dirty when a tracked file in the folder has changed, or
// when git does not track one of the sources: the commit does not hold what
// was built in either case.
func GitCommit(ctx context.Context, dir string) CommitOf {
	var head, status []byte
	var headErr, statusErr error
	var asked sync.WaitGroup
	asked.Go(func() { head, headErr = git(ctx, dir, "rev-parse", "--show-toplevel", "HEAD") })
	asked.Go(func() {
		status, statusErr = git(ctx, dir, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--ignored=no", "--", ".")
	})
	return func(sources []string) *manifests.Commit {
		asked.Wait()
		top, sha, ok := strings.Cut(strings.TrimSpace(string(head)), "\n")
		if headErr != nil || statusErr != nil || !ok {
			return nil
		}
		return &manifests.Commit{SHA: sha, Dirty: isDirty(status, top, sources)}
	}
}

// isDirty reads what "git status --porcelain -z" prints: two letters, a space
// and a path from the top of the repository, each ended by a NUL; a rename is
// followed by its old path.
func isDirty(status []byte, top string, sources []string) bool {
	for entry := range bytes.SplitSeq(status, []byte{0}) {
		if len(entry) < 4 {
			continue
		}
		if string(entry[:2]) != "??" {
			return true
		}
		name := filepath.Join(top, filepath.FromSlash(string(entry[3:])))
		if _, found := slices.BinarySearch(sources, name); found {
			return true
		}
	}
	return false
}

// git runs a command that only reads, with nothing in the environment that
// would make it look at another repository.
func git(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir, "--no-optional-locks"}, args...)...)
	for _, e := range cmd.Environ() {
		if !strings.HasPrefix(e, "GIT_") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	return cmd.Output()
}
