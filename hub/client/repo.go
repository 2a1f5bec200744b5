package client

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// RepoType is the kind of a repository. It decides the URL prefixes.
type RepoType string

// The repository types that kernels live in. Loaders read Kernel; Model is
// what older publishers used.
const (
	Kernel RepoType = "kernel"
	Model  RepoType = "model"
)

// Repo names a repository. Make one with ParseRepo.
type Repo struct {
	Type      RepoType
	Namespace string
	Name      string
}

var repoPart = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,96}$`)

// ParseRepo checks "namespace/name" by the rules that the Hub's own clients
// apply, and refuses namespaces that would collide with a URL prefix. An empty
// type means Kernel.
func ParseRepo(t RepoType, id string) (Repo, error) {
	if t == "" {
		t = Kernel
	}
	if t != Kernel && t != Model {
		return Repo{}, fmt.Errorf("repository type %q: expected kernel or model", t)
	}
	ns, name, ok := strings.Cut(id, "/")
	if !ok || !repoPart.MatchString(ns) || !repoPart.MatchString(name) {
		return Repo{}, fmt.Errorf("repository %q: expected NAMESPACE/NAME of letters, digits, '_', '-' and '.', at most 96 each", id)
	}
	for _, p := range []string{ns, name} {
		if strings.Contains(p, "--") || strings.Contains(p, "..") || strings.HasSuffix(p, ".git") || strings.Trim(p, ".-") != p {
			return Repo{}, fmt.Errorf("repository %q: %q may not hold \"--\" or \"..\", start or end with '.' or '-', or end in .git", id, p)
		}
	}
	switch ns {
	case "kernels", "models", "datasets", "spaces", "api":
		return Repo{}, fmt.Errorf("repository %q: the namespace %q is a URL prefix of the Hub", id, ns)
	}
	return Repo{t, ns, name}, nil
}

// ID returns "namespace/name".
func (r Repo) ID() string { return r.Namespace + "/" + r.Name }

// String returns the ID, with the type in front unless it is a kernel.
func (r Repo) String() string {
	if r.Type == Kernel {
		return r.ID()
	}
	return string(r.Type) + "s/" + r.ID()
}

// CacheFolder is the repository's folder in the Hub's cache layout.
func (r Repo) CacheFolder() string {
	return string(r.Type) + "s--" + r.Namespace + "--" + r.Name
}

// api is the path of the repository's API, webPath the one that files and LFS
// live under.
func (r Repo) api() string { return "/api/" + string(r.Type) + "s/" + r.ID() }

func (r Repo) webPath() string {
	if r.Type == Model {
		return "/" + r.ID()
	}
	return "/" + string(r.Type) + "s/" + r.ID()
}

// seg escapes a revision into the one path segment that the Hub expects.
func seg(s string) string {
	// PathEscape leaves ':', '@' and friends alone, which is harmless, and
	// escapes the slash, which is the point.
	return url.PathEscape(s)
}

// escapePath escapes a file path segment by segment and keeps its slashes.
func escapePath(p string) string {
	parts := strings.Split(p, "/")
	for i, s := range parts {
		parts[i] = url.PathEscape(s)
	}
	return strings.Join(parts, "/")
}

var commitID = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// IsCommit reports whether s is a full commit id: 40 or 64 lower-case hex
// digits. Only such a name pins anything.
func IsCommit(s string) bool { return commitID.MatchString(s) }

// CheckPath reports why a repository path can't be written below a folder:
// it must be relative, slash-separated, clean and free of control bytes.
func CheckPath(p string) error {
	if p == "" || strings.HasPrefix(p, "/") || strings.ContainsAny(p, "\\\x00") {
		return fmt.Errorf("path %q: expected a relative path with forward slashes", p)
	}
	for _, s := range strings.Split(p, "/") {
		if s == "" || s == "." || s == ".." {
			return fmt.Errorf("path %q: empty, \".\" and \"..\" segments are not allowed", p)
		}
	}
	for _, c := range p {
		if c < 0x20 || c == 0x7f {
			return fmt.Errorf("path %q: control characters are not allowed", p)
		}
	}
	return nil
}
