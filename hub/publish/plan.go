package publish

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/hub/bundle"
	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/manifests"
)

// Plan is what a publish will do to one branch, decided from one reading of
// it. Equal bundles and remotes give equal plans.
type Plan struct {
	Repo   string `json:"repo"`
	Branch string `json:"branch"`
	// Parent is the head that was read, empty if the branch is not there.
	Parent       string        `json:"parent"`
	CreateRepo   bool          `json:"create_repo"`
	CreateBranch bool          `json:"create_branch"`
	Variants     []PlanVariant `json:"variants"`
	// Changes are in the order in which they are committed.
	Changes []Change `json:"changes"`
	// Card says that README.md on main will change.
	Card bool `json:"card"`
	// Send and Skip are bytes of files that differ from the remote's and of
	// those that do not.
	Send int64 `json:"bytes_to_send"`
	Skip int64 `json:"bytes_unchanged"`
}

// PlanVariant is one variant in a plan.
type PlanVariant struct {
	Name   string      `json:"name"`
	Digest lock.Digest `json:"digest"`
	// State is "new", "replaced" or "unchanged".
	State string `json:"state"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
}

// Change is one file or folder to add, replace or delete.
type Change struct {
	Action string `json:"action"`
	Path   string `json:"path"`
	Size   int64  `json:"size,omitempty"`

	file *client.File
	// group keeps the changes of one variant in one commit.
	group string
}

// remote is one reading of a branch.
type remote struct {
	head  string
	files map[string]client.Entry
	// fresh says that the branch holds nothing of its own yet: it is missing,
	// or was created from main and not committed to. What it inherited under
	// build/ is not of this version.
	fresh bool
	// foreign lists inherited variants of a branch that is not fresh.
	foreign map[string]bool
	missing bool // the branch
	noRepo  bool
}

// same reports whether the remote entry holds the file's bytes.
func same(f *client.File, e client.Entry) bool {
	if e.Dir || e.Size != f.Size {
		return false
	}
	if e.SHA256 != "" {
		return e.SHA256 == f.SHA256
	}
	return f.GitOID != "" && e.OID == f.GitOID
}

// makePlan compares a bundle with a branch.
func makePlan(b *bundle.Bundle, repo client.Repo, branch string, r *remote) *Plan {
	p := &Plan{Repo: repo.String(), Branch: branch, CreateRepo: r.noRepo, CreateBranch: r.missing, Changes: []Change{}}
	if !r.missing {
		p.Parent = r.head
	}
	own := map[string]bool{}
	for _, v := range b.Variants {
		own[v.Name] = true
	}
	p.dropInherited(r, own)
	for _, v := range b.Variants {
		p.addVariant(v, r)
	}
	p.addBenchmarks(b, r)
	if branch == "main" && b.Card != nil {
		p.put(b.Card, b.Card.Path, "", r)
		p.Card = slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Path == "README.md" })
	}
	return p
}

// dropInherited deletes what a new branch took over from main. Whole folders
// go by one operation each.
func (p *Plan) dropInherited(r *remote, own map[string]bool) {
	gone := map[string]bool{}
	for path, e := range r.files {
		rest, ok := strings.CutPrefix(path, "build/")
		if !ok || e.Dir {
			continue
		}
		variant, _, inFolder := strings.Cut(rest, "/")
		if own[variant] && inFolder || !r.fresh && !r.foreign[variant] {
			continue
		}
		if inFolder {
			gone["build/"+variant+"/"] = true
		} else {
			gone[path] = true
		}
	}
	for _, path := range slices.Sorted(maps.Keys(gone)) {
		p.Changes = append(p.Changes, Change{Action: "delete", Path: path})
	}
}

// addVariant lists a variant's changes: deletions and files first, metadata
// last, so that a variant of more files than one commit may hold becomes
// loadable only when it is whole.
func (p *Plan) addVariant(v *bundle.Variant, r *remote) {
	prefix := "build/" + v.Name + "/"
	before := len(p.Changes)
	published, local := false, map[string]bool{}
	for i := range v.Files {
		local[prefix+v.Files[i].Path] = true
	}
	for _, path := range slices.Sorted(maps.Keys(r.files)) {
		if strings.HasPrefix(path, prefix) && !r.files[path].Dir {
			published = true
			if !local[path] {
				p.Changes = append(p.Changes, Change{Action: "delete", Path: path, group: v.Name})
			}
		}
	}
	var last []*client.File
	for i := range v.Files {
		f := &v.Files[i]
		if f.Path == manifests.MetadataFile || f.Path == manifests.SignatureFile {
			last = append(last, f)
			continue
		}
		p.put(f, prefix+f.Path, v.Name, r)
	}
	for _, f := range last {
		p.put(f, prefix+f.Path, v.Name, r)
	}
	state := "new"
	if published {
		state = "replaced"
		if len(p.Changes) == before {
			state = "unchanged"
		}
	}
	p.Variants = append(p.Variants, PlanVariant{v.Name, v.Digest, state, len(v.Files), v.Bytes()})
}

// put adds a file unless the remote has its bytes at that path.
func (p *Plan) put(f *client.File, path, group string, r *remote) {
	action := "add"
	if e, ok := r.files[path]; ok {
		if same(f, e) {
			p.Skip += f.Size
			return
		}
		action = "replace"
	}
	c := *f
	c.Path = path
	p.Send += f.Size
	p.Changes = append(p.Changes, Change{Action: action, Path: path, Size: f.Size, file: &c, group: group})
}

// addBenchmarks brings benchmarks/benchmark*.py in line. Without local ones a
// branch keeps those it has, unless it only inherited them.
func (p *Plan) addBenchmarks(b *bundle.Bundle, r *remote) {
	local := map[string]bool{}
	for i := range b.Benchmarks {
		local[b.Benchmarks[i].Path] = true
	}
	if len(local) > 0 || r.fresh {
		for _, path := range slices.Sorted(maps.Keys(r.files)) {
			name, ok := strings.CutPrefix(path, "benchmarks/")
			if ok && !strings.Contains(name, "/") && strings.HasPrefix(name, "benchmark") && strings.HasSuffix(name, ".py") && !local[path] {
				p.Changes = append(p.Changes, Change{Action: "delete", Path: path})
			}
		}
	}
	for i := range b.Benchmarks {
		p.put(&b.Benchmarks[i], b.Benchmarks[i].Path, "", r)
	}
}

// Empty reports whether the branch is as the bundle wants it.
func (p *Plan) Empty() bool { return len(p.Changes) == 0 && !p.CreateBranch && !p.CreateRepo }

// Print writes the plan for a person: one line per step and change.
func (p *Plan) Print(w io.Writer) error {
	var b strings.Builder
	if p.CreateRepo {
		fmt.Fprintf(&b, "create repository %s\n", p.Repo)
	}
	if p.CreateBranch {
		fmt.Fprintf(&b, "create branch %s\n", p.Branch)
	}
	for _, v := range p.Variants {
		fmt.Fprintf(&b, "%-9s %s  %d files, %d bytes, %s\n", v.State, v.Name, v.Files, v.Bytes, v.Digest)
	}
	for _, c := range p.Changes {
		fmt.Fprintf(&b, "  %-7s %s", c.Action, c.Path)
		if c.file != nil {
			fmt.Fprintf(&b, "  %d bytes", c.Size)
		}
		b.WriteByte('\n')
	}
	if p.Card {
		fmt.Fprintf(&b, "update README.md on main\n")
	}
	fmt.Fprintf(&b, "%d changes on %s of %s, %d bytes to send, %d bytes there already\n", len(p.Changes), p.Branch, p.Repo, p.Send, p.Skip)
	_, err := io.WriteString(w, b.String())
	return err
}
