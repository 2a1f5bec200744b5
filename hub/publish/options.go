package publish

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/thox-ai/thoxbuild/hub/bundle"
	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/lock"
)

// Options say what to publish and where.
type Options struct {
	// Endpoint is the Hub; HF_ENDPOINT or the public one if empty.
	Endpoint string
	Token    client.Token
	// Repo is NAMESPACE/NAME and RepoType its kind, a kernel if empty.
	Repo     string
	RepoType client.RepoType
	// Dir is the kernel's folder or the folder of its variants, and Variants
	// the names or globs to publish, all if empty.
	Dir      string
	Variants []string
	// Branch is v<version> of the variants if empty.
	Branch string
	// Message is the commit's summary; one that names the variants by default.
	Message  string
	Private  bool
	CreatePR bool
	// DryRun plans and changes nothing.
	DryRun bool
	// Partial allows variants of Required to be missing; the commit says so.
	Partial  bool
	Required []string
	// AllowDirty publishes what was built from uncommitted sources.
	AllowDirty bool
	// KeepPublished refuses to change a variant that is published already.
	KeepPublished bool
	// Card and Benchmarks replace CARD.md and benchmarks/ beside the variants.
	Card, Benchmarks string
	// ParentCommit, if set, must be the branch's head.
	ParentCommit string
	// Registry says that Prepare reads the bundle for a registry, which needs
	// less of it.
	Registry bool
	// Gates are checks on top of this package's own, such as abicheck.
	Gates []Gate
	// Parallel is how many files are hashed or sent at once; 0 for defaults.
	Parallel int
	Progress func(Progress)
	// Log receives lines about retries and redone plans; nil for silence.
	Log func(format string, args ...any)
	// Client replaces the client made from Endpoint and Token.
	Client *client.Client

	// batch overrides the limits of one commit, for tests.
	batch limits
}

// Gate refuses a bundle by returning an error. It runs before anything is
// written anywhere.
type Gate func(ctx context.Context, b *bundle.Bundle) error

// Status says what a publish did.
type Status string

// What a publish may do. The names are kernel-builder's.
const (
	NoChanges          Status = "no_changes"
	Uploaded           Status = "uploaded"
	PullRequestCreated Status = "pull_request_created"
	Planned            Status = "planned"
)

// PullRequest is one that was opened.
type PullRequest struct {
	Branch string `json:"branch"`
	URL    string `json:"url"`
}

// Result says what was published. It is what --output-json prints.
type Result struct {
	Status Status `json:"status"`
	Repo   string `json:"repo_id"`
	Branch string `json:"branch"`
	// Revision is the commit that holds all variants below; empty for a dry
	// run on a branch that does not exist.
	Revision string `json:"revision"`
	URL      string `json:"url"`
	// Variants maps each name to its digest.
	Variants map[string]lock.Digest `json:"variants"`
	// Sent and Skipped count the bytes of files that went over the wire and
	// of those that the Hub had already.
	Sent         int64         `json:"bytes_sent"`
	Skipped      int64         `json:"bytes_skipped"`
	Commits      int           `json:"commits"`
	PullRequests []PullRequest `json:"pull_requests"`
	// Plan is what the last reading of the remote led to.
	Plan *Plan `json:"plan,omitempty"`
}

// ErrConflict says that somebody else changed what was being published.
// Nothing of theirs was overwritten; look at it and publish again.
var ErrConflict = errors.New("the branch holds changes that this publish did not see")

// OptionError is an option that cannot be meant; nothing was tried.
type OptionError struct{ error }

// Unwrap returns what is wrong with it.
func (e OptionError) Unwrap() error { return e.error }

func (o *Options) check() (client.Repo, error) {
	repo, err := client.ParseRepo(o.RepoType, o.Repo)
	if err == nil && o.Branch != "" {
		err = checkBranch(o.Branch)
	}
	if err == nil && o.ParentCommit != "" && !client.IsCommit(o.ParentCommit) {
		err = fmt.Errorf("parent commit %q: expected a full commit id", o.ParentCommit)
	}
	if err != nil {
		return repo, OptionError{err}
	}
	if o.Endpoint == "" {
		o.Endpoint = client.DefaultEndpoint(os.Getenv)
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	o.batch = o.batch.withDefaults()
	return repo, nil
}

// checkBranch applies git's rules for reference names.
func checkBranch(s string) error {
	bad := strings.HasPrefix(s, "refs/") || strings.HasPrefix(s, "/") || strings.HasSuffix(s, "/") || strings.HasPrefix(s, "-") ||
		strings.HasSuffix(s, ".lock") || strings.HasSuffix(s, ".") || strings.HasPrefix(s, ".") ||
		strings.Contains(s, "..") || strings.Contains(s, "//") || strings.Contains(s, "/.") || strings.Contains(s, "@{") ||
		strings.ContainsAny(s, " ~^:?*[\\\x7f") || client.IsCommit(s)
	for _, c := range s {
		bad = bad || c < 0x20
	}
	if bad {
		return fmt.Errorf("branch %q: not a valid branch name", s)
	}
	return nil
}

// Pin is the entry of thoxbuild.lock for what was published. published is
// lock.PublishTime, or empty.
func (r *Result) Pin(t client.RepoType, published string) lock.Kernel {
	if t == "" {
		t = client.Kernel
	}
	return lock.Kernel{Repo: r.Repo, Type: t, Branch: r.Branch, Revision: r.Revision, Published: published, Variants: r.Variants}
}
