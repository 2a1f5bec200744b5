package toolchain

import "context"

// making is an entry that is made beside other work.
type making struct {
	done chan struct{}
	err  error // set before done is closed
}

// wait returns when the entry is in the store, or with the reason why not. It
// is there already for a nil making.
func (m *making) wait(ctx context.Context) error {
	if m == nil {
		return nil
	}
	select {
	case <-m.done:
		return m.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// entryAhead is entry for what only a later step reads: it returns the name at
// once. The entry is made meanwhile, until Close; a nil making means that it is
// there.
func (s *Store) entryAhead(name string, fill func(ctx context.Context, dir string) error) (virtual string, m *making) {
	virtual = VirtualRoot + "/" + name
	if s.has(name) {
		return virtual, nil
	}
	s.aheadMu.Lock()
	defer s.aheadMu.Unlock()
	if m = s.ahead[name]; m != nil {
		return virtual, m
	}
	if s.ahead == nil {
		s.ahead = map[string]*making{}
	}
	m = &making{done: make(chan struct{})}
	s.ahead[name] = m
	s.work.Go(func() {
		defer close(m.done)
		_, m.err = s.entry(s.ctx, name, func(dir string) error { return fill(s.ctx, dir) })
	})
	return virtual, m
}

// Close ends what is still being made for nobody, and waits until what was made
// is on the disk or ctx ends. A store that is not closed is whole as well; the
// next Open has the rest to do.
func (s *Store) Close(ctx context.Context) {
	s.cancel()
	s.work.Wait()
	done := make(chan struct{})
	go func() {
		s.syncs.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
