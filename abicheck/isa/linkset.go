package isa

import (
	"context"
	"slices"
	"sync"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// links keeps the objects of recent links: every object of a link is asked
// about the others, and reading them again each time would be quadratic.
var linkCache struct {
	sync.Mutex
	entries []*linkEntry
}

type linkEntry struct {
	link    *rule.Link
	strict  bool
	once    sync.Once
	members []*member
	err     error
}

const maxLinks = 4

// linkSet returns the objects that s is linked with, s among them.
func linkSet(ctx context.Context, s *rule.Subject, strict bool) ([]*member, *member, error) {
	if s.Link == nil || len(s.Link.Objects) == 0 {
		m := openMember(ctx, s, strict)
		return []*member{m}, m, m.err
	}
	set, err := members(ctx, s.Link, strict)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range set {
		if m.s == s {
			return slices.DeleteFunc(slices.Clone(set), func(m *member) bool { return m.err != nil || m.o == nil }), m, m.err
		}
	}
	m := openMember(ctx, s, strict)
	return []*member{m}, m, m.err
}

// members opens the objects of a link once.
func members(ctx context.Context, l *rule.Link, strict bool) ([]*member, error) {
	linkCache.Lock()
	var e *linkEntry
	for _, x := range linkCache.entries {
		if x.link == l && x.strict == strict {
			e = x
		}
	}
	if e == nil {
		e = &linkEntry{link: l, strict: strict}
		linkCache.entries = append(linkCache.entries, e)
		if n := len(linkCache.entries); n > maxLinks {
			linkCache.entries = slices.Delete(linkCache.entries, 0, n-maxLinks)
		}
	}
	linkCache.Unlock()
	e.once.Do(func() {
		for _, s := range l.Objects {
			if !isObject(s) || lto(s) {
				continue
			}
			e.members = append(e.members, openMember(ctx, s, strict))
			if e.err = ctx.Err(); e.err != nil {
				return
			}
		}
	})
	return e.members, e.err
}
