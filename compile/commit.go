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
// when git does not track one of the sources, ignored ones included: the commit
// does not hold what was built in either case. The same goes for the workspace's
// file, which may lie above the folder; it may be empty.
func GitCommit(ctx context.Context, dir, workspace string) CommitOf {
	var head, status, above []byte
	var headErr, statusErr error
	var asked sync.WaitGroup
	list := []string{"status", "--porcelain=v1", "-z", "--untracked-files=all", "--ignored=matching", "--"}
	asked.Go(func() { head, headErr = git(ctx, dir, "rev-parse", "--show-toplevel", "HEAD") })
	asked.Go(func() { status, statusErr = git(ctx, dir, append(slices.Clip(list), ".")...) })
	if workspace != "" && filepath.Dir(workspace) != dir {
		// Where it is in another repository, no commit of this one can hold it.
		asked.Go(func() { above, _ = git(ctx, dir, append(slices.Clip(list), workspace)...) })
	}
	return func(sources []string) *manifests.Commit {
		asked.Wait()
		out := strings.TrimSpace(string(head))
		cut := strings.LastIndexByte(out, '\n') // a folder's name may hold one
		if headErr != nil || statusErr != nil || cut < 0 {
			return nil
		}
		top, sha := out[:cut], out[cut+1:]
		return &manifests.Commit{SHA: sha, Dirty: len(above) > 0 || isDirty(status, top, sources)}
	}
}

// isDirty reads what "git status --porcelain -z" prints: two letters, a space
// and a path from the top of the repository, each ended by a NUL; a rename is
// followed by its old path. A folder that is ignored, or is a repository of its
// own, has a slash at its end and stands for all that is in it.
func isDirty(status []byte, top string, sources []string) bool {
	var untracked []string
	for entry := range bytes.SplitSeq(status, []byte{0}) {
		if len(entry) < 4 {
			continue
		}
		if s := string(entry[:2]); s != "??" && s != "!!" {
			return true
		}
		untracked = append(untracked, filepath.FromSlash(string(entry[3:])))
	}
	if len(untracked) == 0 {
		return false
	}
	for _, source := range sources {
		// git names files by their real places.
		real, err := filepath.EvalSymlinks(source)
		if err != nil {
			return true // it was there when it was read
		}
		rel, err := filepath.Rel(top, real)
		if err != nil {
			return true
		}
		if slices.ContainsFunc(untracked, func(u string) bool {
			return rel == u || strings.HasSuffix(u, string(filepath.Separator)) && strings.HasPrefix(rel, u)
		}) {
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
