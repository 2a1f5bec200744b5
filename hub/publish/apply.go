package publish

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/thox-ai/thoxbuild/hub/client"
)

// apply carries out a plan. again says that the branch had to be made and the
// plan must be made anew on what it inherited.
func (s *session) apply(ctx context.Context, r *remote, p *Plan) (again bool, err error) {
	if p.CreateRepo {
		if s.o.CreatePR {
			return false, fmt.Errorf("repository %s does not exist; a pull request needs one, so publish without it first", s.repo)
		}
		if _, err := s.c.CreateRepo(ctx, s.repo, s.o.Private); err != nil {
			return false, err
		}
	}
	rev := s.branch
	if r.missing {
		rev = "main"
	}
	inline, err := s.advise(ctx, rev, p)
	if err != nil {
		return false, err
	}
	if err := s.upload(ctx, r, p, inline); err != nil {
		return false, err
	}
	if r.missing {
		// As late as possible: until the first commit the branch shows
		// whatever main holds.
		if err := s.makeBranch(ctx, r.head); err != nil {
			if s.o.CreatePR && errors.Is(err, client.ErrForbidden) {
				err = fmt.Errorf("%w\nhint: branch %s must exist before a pull request can be opened against it; ask an owner to create it", err, s.branch)
			}
			return false, err
		}
		s.madeBranch = true
		return true, nil
	}
	return false, s.commitAll(ctx, r, p, inline)
}

// makeBranch makes the version branch. main comes with the repository.
func (s *session) makeBranch(ctx context.Context, from string) error {
	if s.branch == "main" {
		return nil
	}
	return s.c.CreateBranch(ctx, s.repo, s.branch, from)
}

// advise asks how each changed file is to be sent, once per content. It
// returns the paths that travel inside the commit.
func (s *session) advise(ctx context.Context, rev string, p *Plan) (map[string]bool, error) {
	key := func(f *client.File) string { return f.SHA256 + " " + f.Path }
	var ask []client.File
	for _, c := range p.Changes {
		if c.file != nil {
			if _, ok := s.advice[key(c.file)]; !ok {
				ask = append(ask, *c.file)
			}
		}
	}
	got, err := s.c.Preupload(ctx, s.repo, rev, ask, s.o.CreatePR)
	if err != nil {
		return nil, err
	}
	for i, a := range got {
		if a.Ignore {
			return nil, fmt.Errorf("the .gitignore of %s excludes %s, which would leave the variant broken; remove that rule", s.repo, ask[i].Path)
		}
		s.advice[key(&ask[i])] = a
	}
	inline := map[string]bool{}
	for _, c := range p.Changes {
		if c.file != nil && s.advice[key(c.file)].Mode == client.Regular {
			inline[c.Path] = true
		}
	}
	return inline, nil
}

// upload brings the large files to the LFS store.
func (s *session) upload(ctx context.Context, r *remote, p *Plan, inline map[string]bool) error {
	var files []client.File
	for _, c := range p.Changes {
		if c.file != nil && !inline[c.Path] && !s.stored[c.file.SHA256] {
			files = append(files, *c.file)
		}
	}
	s.meter.phase("upload", p.Send)
	if len(files) == 0 {
		return nil
	}
	opts := client.UploadOptions{Parallel: s.o.Parallel}
	if s.meter != nil {
		opts.Progress = s.meter
	}
	if !r.missing && !s.o.CreatePR {
		opts.Ref = s.branch
	}
	sent, err := s.c.UploadLFS(ctx, s.repo, files, opts)
	s.result.Sent += sent
	if err != nil {
		return err
	}
	for _, f := range files {
		s.stored[f.SHA256] = true
	}
	return nil
}

// commitAll makes the plan's commits, each on top of the one before.
func (s *session) commitAll(ctx context.Context, r *remote, p *Plan, inline map[string]bool) error {
	s.meter.phase("commit", 0)
	batches := s.o.batch.split(p.Changes, inline, func(path string) bool { _, ok := r.files[path]; return ok })
	n := client.NewCommit{Branch: s.branch, Parent: p.Parent, CreatePR: s.o.CreatePR}
	if s.meter != nil {
		n.Progress = s.meter
	}
	for i, batch := range batches {
		n.Summary, n.Description = s.message(i, len(batches))
		n.Ops = nil
		var bytes int64
		for _, c := range batch {
			switch {
			case c.file == nil:
				n.Ops = append(n.Ops, client.Op{Delete: c.Path})
			case inline[c.Path]:
				n.Ops = append(n.Ops, client.Op{Add: c.file})
				bytes += c.Size
			default:
				n.Ops = append(n.Ops, client.Op{Point: c.file})
			}
		}
		done, err := s.commit(ctx, n, p)
		if err != nil {
			return err
		}
		s.result.Sent += bytes
		s.result.Commits++
		s.result.Status, s.result.Revision = Uploaded, done.Commit
		if n.CreatePR {
			ref, err := pullRequestRef(done.PullRequestURL)
			if err != nil {
				return err
			}
			s.result.PullRequests = append(s.result.PullRequests, PullRequest{s.branch, done.PullRequestURL})
			n.Branch, n.CreatePR = ref, false
		}
		n.Parent = done.Commit
	}
	if s.o.CreatePR {
		s.result.Status = PullRequestCreated
	}
	return nil
}

var prURL = regexp.MustCompile(`/discussions/([1-9][0-9]{0,9})$`)

func pullRequestRef(url string) (string, error) {
	m := prURL.FindStringSubmatch(url)
	if m == nil {
		return "", fmt.Errorf("the server's answer names no pull request (%q)", url)
	}
	return "refs/pr/" + m[1], nil
}

// commit sends one commit. On a branch, an uncertain outcome is settled by
// the caller's re-reading. A pull request has no head to compare, so what was
// opened meanwhile is looked for before it is opened again.
func (s *session) commit(ctx context.Context, n client.NewCommit, p *Plan) (client.Committed, error) {
	if !s.o.CreatePR {
		return s.c.Commit(ctx, s.repo, n)
	}
	before, err := s.c.Refs(ctx, s.repo, true)
	if err != nil {
		return client.Committed{}, err
	}
	known := map[string]string{}
	for _, pr := range before.PullRequests {
		known[pr.Ref] = pr.Commit
	}
	for try := 1; ; try++ {
		done, err := s.c.Commit(ctx, s.repo, n)
		if !errors.Is(err, client.ErrUncertain) {
			return done, err
		}
		after, rerr := s.c.Refs(ctx, s.repo, true)
		if rerr != nil {
			return done, errors.Join(err, rerr)
		}
		for _, pr := range after.PullRequests {
			if pr.Commit == known[pr.Ref] || (!n.CreatePR && pr.Ref != n.Branch) {
				continue
			}
			files, terr := s.tree(ctx, pr.Commit)
			if terr != nil {
				return done, errors.Join(err, terr)
			}
			if applied(n.Ops, files) {
				num := strings.TrimPrefix(pr.Ref, "refs/pr/")
				base, _, _ := strings.Cut(s.result.URL, "/tree/")
				return client.Committed{Commit: pr.Commit, PullRequestURL: base + "/discussions/" + num}, nil
			}
		}
		if try >= maxStuck {
			return done, err
		}
		if err := pause(ctx, try); err != nil {
			return done, err
		}
	}
}

// applied reports whether a tree is what the operations lead to.
func applied(ops []client.Op, files map[string]client.Entry) bool {
	for _, o := range ops {
		f := o.Add
		if o.Point != nil {
			f = o.Point
		}
		if f != nil {
			if e, ok := files[f.Path]; !ok || !same(f, e) {
				return false
			}
			continue
		}
		for path := range files {
			if path == o.Delete || strings.HasSuffix(o.Delete, "/") && strings.HasPrefix(path, o.Delete) {
				return false
			}
		}
	}
	return true
}

// message is a commit's summary and description. It is deterministic: no time
// and no host.
func (s *session) message(i, n int) (summary, description string) {
	summary = s.o.Message
	vs := s.bundle.Variants
	if summary == "" {
		summary = fmt.Sprintf("Publish %d variants of %s version %d", len(vs), vs[0].Metadata.Name, vs[0].Metadata.Version)
		if len(vs) == 1 {
			summary = fmt.Sprintf("Publish %s of %s version %d", vs[0].Name, vs[0].Metadata.Name, vs[0].Metadata.Version)
		}
	}
	missing := missingVariants(s.bundle, s.o.Required)
	if len(missing) > 0 {
		summary += fmt.Sprintf(" (partial, %d required variants missing)", len(missing))
	}
	if n > 1 {
		summary += fmt.Sprintf(" (batch %d/%d)", i+1, n)
	}
	var b strings.Builder
	for _, v := range vs {
		fmt.Fprintf(&b, "%s %s\n", v.Name, v.Digest)
	}
	for _, m := range missing {
		fmt.Fprintf(&b, "missing: %s\n", m)
	}
	return summary, b.String()
}
