package compile

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/manifests"
)

// GitCommit asks git for the commit of a kernel's folder. It returns nil when
// the folder is in no repository, has no commit yet, or there is no git.
//
// The tree counts as dirty when a tracked file in the folder has changed, or
// when git does not track one of the sources: the commit does not hold what
// was built in either case.
func GitCommit(ctx context.Context, dir string, sources []string) *manifests.Commit {
	out, err := git(ctx, dir, "rev-parse", "--show-toplevel", "HEAD")
	if err != nil {
		return nil
	}
	top, sha, ok := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if !ok {
		return nil
	}
	status, err := git(ctx, dir, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--ignored=no", "--", ".")
	if err != nil {
		return nil
	}
	return &manifests.Commit{SHA: sha, Dirty: isDirty(status, top, sources)}
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
