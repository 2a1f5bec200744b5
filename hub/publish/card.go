package publish

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/thox-ai/thoxbuild/hub/client"
)

// maxCard is far more than any README; the Hub checks its front matter in
// memory.
const maxCard = 4 << 20

// validateCard asks the Hub about the card before anything is written, if the
// card will change.
func (s *session) validateCard(ctx context.Context) error {
	card := s.bundle.Card
	if card == nil {
		return nil
	}
	if card.Size > maxCard {
		return fmt.Errorf("the card has %d bytes; at most %d are allowed", card.Size, maxCard)
	}
	entries, err := s.c.PathsInfo(ctx, s.repo, "main", []string{card.Path})
	if err == nil && len(entries) == 1 && same(card, entries[0]) {
		return nil
	}
	if err != nil && !errors.Is(err, client.ErrRepoNotFound) && !errors.Is(err, client.ErrRevisionNotFound) {
		var status *client.Error
		if !errors.As(err, &status) || status.Status != 404 {
			return err
		}
	}
	r, err := card.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	b, err := io.ReadAll(io.NewSectionReader(r, 0, card.Size))
	if err != nil {
		return fmt.Errorf("read the card: %w", err)
	}
	return s.c.ValidateCard(ctx, s.repo, b)
}

// planCard notes in a dry run whether the card would change.
func (s *session) planCard(ctx context.Context, r *remote, p *Plan) error {
	card := s.bundle.Card
	if card == nil || s.branch == "main" || r.noRepo {
		p.Card = card != nil
		return nil
	}
	entries, err := s.c.PathsInfo(ctx, s.repo, "main", []string{card.Path})
	p.Card = err == nil && (len(entries) == 0 || !same(card, entries[0]))
	return err
}

// publishCard puts the card on main as README.md. Its own rounds follow the
// same rule as the branch's: a README that somebody else changed after we
// first looked is not overwritten.
func (s *session) publishCard(ctx context.Context) error {
	if s.o.DryRun {
		return nil
	}
	card := s.bundle.Card
	first, read := "", false
	for round := 1; ; round++ {
		refs, err := s.c.Refs(ctx, s.repo, false)
		if err != nil {
			return err
		}
		head, ok := refs.Branch("main")
		if !ok {
			return fmt.Errorf("%s has no main branch to put the card on", s.repo)
		}
		now := ""
		entries, err := s.c.PathsInfo(ctx, s.repo, head, []string{card.Path})
		if err != nil {
			return err
		}
		if len(entries) == 1 {
			if same(card, entries[0]) {
				return nil
			}
			now = entries[0].ETag()
		}
		if read && now != first {
			return fmt.Errorf("%w: README.md on main was changed by somebody else meanwhile", ErrConflict)
		}
		first, read = now, true
		advice, err := s.c.Preupload(ctx, s.repo, "main", []client.File{*card}, s.o.CreatePR)
		if err != nil {
			return err
		}
		op := client.Op{Add: card}
		if advice[0].Mode == client.LFS {
			sent, err := s.c.UploadLFS(ctx, s.repo, []client.File{*card}, client.UploadOptions{})
			s.result.Sent += sent
			if err != nil {
				return err
			}
			op = client.Op{Point: card}
		}
		n := client.NewCommit{Branch: "main", Parent: head, CreatePR: s.o.CreatePR, Summary: "Update the card", Ops: []client.Op{op}}
		done, err := s.commit(ctx, n, nil)
		if err == nil {
			s.result.Commits++
			if op.Add != nil {
				s.result.Sent += card.Size
			}
			if s.o.CreatePR {
				s.result.PullRequests = append(s.result.PullRequests, PullRequest{"main", done.PullRequestURL})
				s.result.Status = PullRequestCreated
			} else if s.result.Status == NoChanges {
				s.result.Status = Uploaded
			}
			return nil
		}
		if s.o.CreatePR || round >= maxRounds || !errors.Is(err, client.ErrParentMoved) && !errors.Is(err, client.ErrUncertain) {
			return err
		}
		if err := pause(ctx, round); err != nil {
			return err
		}
	}
}
