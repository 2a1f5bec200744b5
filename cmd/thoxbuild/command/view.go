package command

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/thox-ai/thoxbuild/compile"
)

// view shows a running build on stderr: on a terminal a block of live lines,
// one per running action, below what has finished; elsewhere one plain line
// per finished action. Its methods may be called by several goroutines.
type view struct {
	s *Streams

	mu      sync.Mutex
	running map[*compile.Action]time.Time
	order   []*compile.Action
	moving  string // a transfer's line
	done    int
	total   int
	drawn   int // live lines on the screen
	stop    chan struct{}
	ticking sync.WaitGroup
	closed  bool
}

func newView(s *Streams) *view {
	v := &view{s: s, running: map[*compile.Action]time.Time{}, stop: make(chan struct{})}
	if s.ErrTTY {
		v.ticking.Add(1)
		go v.tick()
	}
	return v
}

// tick redraws the live lines while nothing else happens, so that their
// clocks run.
func (v *view) tick() {
	defer v.ticking.Done()
	t := time.NewTicker(200 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-v.stop:
			return
		case <-t.C:
			v.mu.Lock()
			v.redraw()
			v.mu.Unlock()
		}
	}
}

// close clears the live lines. It may be called twice.
func (v *view) close() {
	v.mu.Lock()
	if v.closed {
		v.mu.Unlock()
		return
	}
	v.closed = true
	v.erase()
	v.mu.Unlock()
	close(v.stop)
	v.ticking.Wait()
}

// printf writes a line above the live ones.
func (v *view) printf(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.erase()
	fmt.Fprintf(v.s.Err, format+"\n", args...)
	v.redraw()
}

// Transfer implements toolchain.Progress.
func (v *view) Transfer(label string, done, total int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return
	}
	if !v.s.ErrTTY {
		if v.moving != label {
			v.moving = label
			fmt.Fprintf(v.s.Err, "fetching %s\n", label)
		}
		return
	}
	v.moving = fmt.Sprintf("fetching %s  %.1f MB", label, float64(done)/1e6)
	if total > 0 {
		v.moving += fmt.Sprintf(" of %.1f MB", float64(total)/1e6)
		if done >= total {
			v.moving = ""
		}
	}
}

// Observe implements compile.Observer.
func (v *view) Observe(e compile.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.done, v.total, v.moving = e.Done, e.Total, ""
	count := v.s.paint(faint, fmt.Sprintf("[%d/%d]", e.Done, e.Total))
	line := ""
	switch e.Type {
	case compile.EventStarted:
		v.running[e.Action] = e.Time
		v.order = append(v.order, e.Action)
	case compile.EventFinished:
		line = fmt.Sprintf("%s %s", count, e.Action.Label)
		if start, ok := v.running[e.Action]; ok {
			line += v.s.paint(faint, fmt.Sprintf("  %.1f s", e.Time.Sub(start).Seconds()))
		}
	case compile.EventFailed:
		line = fmt.Sprintf("%s %s %s", count, v.s.paint(red, "failed"), e.Action.Label)
	case compile.EventVariant:
		switch {
		case e.Variant.Err != nil:
			line = fmt.Sprintf("%s %s", v.s.paint(red, "not built"), e.Variant.Name)
		case e.Variant.Cached:
			line = fmt.Sprintf("%s %s", v.s.paint(green, "unchanged"), e.Variant.Name)
		default:
			line = fmt.Sprintf("%s %s", v.s.paint(green, "built"), e.Variant.Name)
		}
	}
	if e.Type == compile.EventFinished || e.Type == compile.EventFailed {
		delete(v.running, e.Action)
		v.order = filter(v.order, func(a *compile.Action) bool { return a != e.Action })
	}
	v.erase()
	if line != "" {
		fmt.Fprintln(v.s.Err, line)
	}
	v.redraw()
}

// erase removes the live lines; the cursor stands where they began.
func (v *view) erase() {
	if v.drawn > 0 {
		fmt.Fprintf(v.s.Err, "\x1b[%dA\x1b[J", v.drawn)
		v.drawn = 0
	}
}

func (v *view) redraw() {
	if !v.s.ErrTTY || v.closed {
		return
	}
	v.erase()
	var lines []string
	now := time.Now()
	for _, a := range v.order {
		lines = append(lines, fmt.Sprintf("  %5.1f s  %s", now.Sub(v.running[a]).Seconds(), a.Label))
	}
	if v.moving != "" {
		lines = append(lines, "  "+v.moving)
	}
	if len(v.order) > 0 {
		lines = append(lines, fmt.Sprintf("  %d of %d actions", v.done, v.total))
	}
	for _, l := range lines {
		// A line that wraps would break the count of lines to erase.
		if w := v.s.ErrWidth; w > 0 && len(l) >= w {
			l = l[:max(0, w-2)] + "…"
		}
		fmt.Fprintln(v.s.Err, strings.ToValidUTF8(l, ""))
	}
	v.drawn = len(lines)
}
