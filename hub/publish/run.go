package publish

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/thox-ai/thoxbuild/hub/bundle"
	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/lock"
)

// session is one run. Its maps remember what was achieved, so that a plan
// made again starts from there.
type session struct {
	o      Options
	c      *client.Client
	repo   client.Repo
	branch string
	bundle *bundle.Bundle
	meter  *meter

	// seen is what the first reading found at the paths we publish.
	seen       map[string]string
	madeBranch bool
	// advice holds preupload answers by path and content, stored the LFS
	// objects that are known to be there.
	advice map[string]client.Advice
	stored map[string]bool
	// uncertain says that some commit may have been applied unseen.
	uncertain bool
	result    Result
}

// Run publishes. See the package comment for its promises. The error of a
// refused gate, a conflict (ErrConflict) or a server's refusal leaves the
// branch as it was; calling Run again after any other failure completes the
// publish and sends at most what had not arrived.
func Run(ctx context.Context, o Options) (*Result, error) {
	s, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := s.validateCard(ctx); err != nil {
		return nil, err
	}
	if err := s.publishBranch(ctx); err != nil {
		return nil, err
	}
	if s.branch != "main" && s.bundle.Card != nil {
		if err := s.publishCard(ctx); err != nil {
			return nil, fmt.Errorf("%s is published at %s, but its card is not: %w", s.branch, s.result.Revision, err)
		}
	}
	return &s.result, nil
}

// open does everything that needs no network: options, hashing, gates.
func open(ctx context.Context, o Options) (*session, error) {
	repo, err := o.check()
	if err != nil {
		return nil, err
	}
	s := &session{repo: repo, meter: newMeter(o.Progress), advice: map[string]client.Advice{}, stored: map[string]bool{}}
	s.meter.phase("hash", 0)
	if s.bundle, err = Prepare(ctx, o); err != nil {
		return nil, err
	}
	s.branch = o.Branch
	if s.branch == "" {
		s.branch = fmt.Sprintf("v%d", s.bundle.Variants[0].Metadata.Version)
	}
	if s.c = o.Client; s.c == nil {
		s.c, err = client.New(client.Config{Endpoint: o.Endpoint, Token: o.Token, Log: o.Log})
		if err != nil {
			return nil, err
		}
	}
	s.o = o
	s.result = Result{
		Status: NoChanges, Repo: repo.ID(), Branch: s.branch, Variants: map[string]lock.Digest{}, PullRequests: []PullRequest{},
		URL: fmt.Sprintf("%s/%ss/%s/tree/%s", s.c.Endpoint(), repo.Type, repo.ID(), s.branch),
	}
	if repo.Type == client.Model {
		s.result.URL = fmt.Sprintf("%s/%s/tree/%s", s.c.Endpoint(), repo.ID(), s.branch)
	}
	for _, v := range s.bundle.Variants {
		s.result.Variants[v.Name] = v.Digest
	}
	return s, nil
}

// Bounds on redoing a plan. Of n publishers that race, one wins each round,
// so 32 rounds serve more of them than a repository has. A branch that refuses
// its own head as parent three times is not a race.
const (
	maxRounds = 32
	maxStuck  = 3
)

// publishBranch brings the version branch in line with the bundle.
func (s *session) publishBranch(ctx context.Context) error {
	stuck := 0
	for round := 1; ; round++ {
		s.meter.phase("plan", 0)
		r, err := s.read(ctx)
		if err != nil {
			return err
		}
		p := makePlan(s.bundle, s.repo, s.branch, r)
		s.result.Plan = p
		if err := s.unseen(r, p); err != nil {
			return err
		}
		if s.o.DryRun {
			s.result.Status, s.result.Revision = Planned, p.Parent
			return s.planCard(ctx, r, p)
		}
		s.result.Skipped = p.Skip
		if p.Empty() {
			s.result.Revision = r.head
			if s.uncertain {
				s.result.Status = Uploaded
			}
			return nil
		}
		again, err := s.apply(ctx, r, p)
		if err == nil && !again {
			return nil
		}
		if err == nil {
			continue // the branch was made; read what it inherited
		}
		moved := errors.Is(err, client.ErrParentMoved)
		if !moved && !errors.Is(err, client.ErrUncertain) || s.o.CreatePR {
			return err
		}
		if moved {
			stuck++ // set back below when the head has really moved
			if refs, rerr := s.c.Refs(ctx, s.repo, false); rerr == nil {
				if head, _ := refs.Branch(s.branch); head != p.Parent {
					stuck = 0
				}
			}
		} else {
			s.uncertain = true
		}
		if round >= maxRounds || stuck >= maxStuck {
			return err
		}
		s.o.Log("%v; reading %s again", err, s.branch)
		if err := pause(ctx, round); err != nil {
			return err
		}
	}
}

// pause spreads publishers that lost the same race.
func pause(ctx context.Context, round int) error {
	d := rand.N(time.Duration(min(round, 10)) * 50 * time.Millisecond)
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// unseen ends the publish when somebody else has changed a file that it is
// about to change or delete. The first reading is what the caller's decision
// was based on; at each path, only what it found there or what we want there
// may be there later.
func (s *session) unseen(r *remote, p *Plan) error {
	if want := s.o.ParentCommit; want != "" && s.seen == nil && p.Parent != want {
		return fmt.Errorf("%w: the head of %s is %s, not %s", ErrConflict, s.branch, orNone(p.Parent), want)
	}
	now := map[string]string{}
	for path, e := range r.files {
		if rest, ok := strings.CutPrefix(path, "build/"); ok && !r.missing {
			if variant, _, _ := strings.Cut(rest, "/"); s.owns(variant) {
				now[path] = e.ETag()
			}
		}
	}
	if s.o.KeepPublished {
		for _, v := range p.Variants {
			if v.State == "replaced" && !r.fresh && s.seen == nil {
				return fmt.Errorf("%w: variant %s is published already with other content; raise the version, or allow replacing", ErrConflict, v.Name)
			}
		}
	}
	if s.seen == nil {
		s.seen = now
		return nil
	}
	if r.fresh {
		s.seen = now // just inherited from main
		return nil
	}
	for _, c := range p.Changes {
		if got := now[c.Path]; got != "" && got != s.seen[c.Path] && !strings.HasSuffix(c.Path, "/") {
			return fmt.Errorf("%w: %s was published by somebody else meanwhile (%s is now at %s)", ErrConflict, c.Path, s.branch, r.head)
		}
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "missing"
	}
	return s
}
