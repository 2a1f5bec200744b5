// Package progress shows a build to a person: on a terminal a live line for
// each running action, elsewhere one plain line for each finished one.
package progress

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/thox-ai/thoxbuild/compile"
)

// Options say what the output can do.
type Options struct {
	// Live allows lines that are written over: the output is a terminal.
	Live bool
	// Width is the terminal's width in columns; 0 means 80.
	Width int
	// Rows bounds the live lines; 0 means 8.
	Rows int
	// Variants prints a line for each finished variant.
	Variants bool
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Printer is a compile.Observer that writes to a terminal or a file. Close it
// before anything else is written.
type Printer struct {
	w io.Writer
	o Options

	mu      sync.Mutex // guards everything below
	running []running
	cached  int
	done    int
	total   int
	moving  []transfer      // under way, the oldest first
	told    map[string]bool // transfers that were announced, by label
	drawn   int             // live lines on the screen
	closed  bool
	stop    chan struct{}
	stopped sync.WaitGroup
}

type running struct {
	action *compile.Action
	since  time.Time
	where  string
}

var _ compile.Observer = (*Printer)(nil)

// redraw is how often the live lines are drawn while nothing happens.
const redraw = 200 * time.Millisecond

// New starts a printer.
func New(w io.Writer, o Options) *Printer {
	if o.Width <= 0 {
		o.Width = 80
	}
	if o.Rows <= 0 {
		o.Rows = 8
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	p := &Printer{w: w, o: o, stop: make(chan struct{})}
	if o.Live {
		p.stopped.Go(p.tick)
	}
	return p
}

func (p *Printer) tick() {
	t := time.NewTicker(redraw)
	defer t.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-t.C:
			p.mu.Lock()
			p.draw(nil)
			p.mu.Unlock()
		}
	}
}

// Observe implements compile.Observer.
func (p *Printer) Observe(e compile.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.total, p.moving = e.Done, e.Total, nil
	var say bytes.Buffer
	switch e.Type {
	case compile.EventStarted:
		p.running = append(p.running, running{e.Action, p.o.Now(), e.Where})
	case compile.EventCached:
		p.end(e.Action)
		p.cached++
		p.log(&say, e)
	case compile.EventFinished:
		p.end(e.Action)
		fmt.Fprintf(&say, "[%d/%d] %s (%s)\n", e.Done, e.Total, e.Action.Label, place(seconds(e.Result.Wall), e.Result.Where))
		p.log(&say, e)
	case compile.EventFailed:
		p.end(e.Action)
		fmt.Fprintf(&say, "[%d/%d] FAILED %s\n", e.Done, e.Total, e.Action.Label)
	case compile.EventSkipped:
		p.end(e.Action)
	case compile.EventVariant:
		if p.o.Variants && e.Err == nil {
			state := "built"
			if e.Variant.Cached {
				state = "unchanged"
			}
			fmt.Fprintf(&say, "%-9s %s\n", state, e.Variant.Name)
		}
	}
	p.draw(say.Bytes())
}

// Printf prints a line above the live ones.
func (p *Printer) Printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draw(fmt.Appendf(nil, format+"\n", args...))
}

// log repeats what the command printed, from the cache as well: a warning does
// not go away because nothing was compiled.
func (p *Printer) log(to *bytes.Buffer, e compile.Event) {
	if e.Result == nil || len(e.Result.Log) == 0 {
		return
	}
	fmt.Fprintf(to, "# %s\n%s\n", e.Action.Label, bytes.TrimRight(e.Result.Log, "\n"))
}

func (p *Printer) end(a *compile.Action) {
	p.running = slices.DeleteFunc(p.running, func(r running) bool { return r.action == a })
}

// draw takes the live lines away, prints what stays, and draws them again. It
// is one write, so that a terminal shows no state in between.
func (p *Printer) draw(say []byte) {
	if !p.o.Live {
		if len(say) > 0 {
			p.w.Write(say)
		}
		return
	}
	var b bytes.Buffer
	p.erase(&b)
	b.Write(say)
	if !p.closed && (len(p.running) > 0 || len(p.moving) > 0) {
		p.drawn = p.lines(&b)
	}
	if b.Len() > 0 {
		p.w.Write(b.Bytes())
	}
}

func (p *Printer) erase(b *bytes.Buffer) {
	if p.drawn > 0 {
		fmt.Fprintf(b, "\x1b[%dA\x1b[J", p.drawn) // up, then clear to the end
		p.drawn = 0
	}
}

// lines draws the state and the running actions, the oldest first.
func (p *Printer) lines(b *bytes.Buffer) int {
	var lines []string
	for _, t := range p.moving {
		lines = append(lines, t.line)
	}
	if len(p.running) > 0 {
		lines = append(lines, fmt.Sprintf("[%d/%d] %d running, %d from the cache", p.done, p.total, len(p.running), p.cached))
	}
	now := p.o.Now()
	for i, r := range p.running {
		if i == p.o.Rows && len(p.running) > p.o.Rows+1 {
			lines = append(lines, fmt.Sprintf("  and %d more", len(p.running)-i))
			break
		}
		lines = append(lines, fmt.Sprintf("  %6s  %s", place(seconds(now.Sub(r.since)), r.where), r.action.Label))
	}
	for _, l := range lines {
		b.WriteString(fit(l, p.o.Width-1)) // a full line would wrap on some terminals
		b.WriteByte('\n')
	}
	return len(lines)
}

// transfer is a download and its live line.
type transfer struct{ label, line string }

// Transfer shows how far a download is: a live line for each that is under
// way, or one plain line when it begins. total is 0 when it is not known.
func (p *Printer) Transfer(label string, done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	if !p.o.Live {
		if !p.told[label] {
			if p.told == nil {
				p.told = map[string]bool{}
			}
			p.told[label] = true
			fmt.Fprintf(p.w, "fetching %s\n", label)
		}
		return
	}
	i := slices.IndexFunc(p.moving, func(t transfer) bool { return t.label == label })
	if i < 0 {
		i = len(p.moving)
		p.moving = append(p.moving, transfer{label: label})
	}
	p.moving[i].line = fmt.Sprintf("fetching %s  %.1f MB", label, float64(done)/1e6)
	if total > 0 {
		p.moving[i].line += fmt.Sprintf(" of %.1f MB", float64(total)/1e6)
	}
	if total > 0 && done >= total {
		p.moving = slices.Delete(p.moving, i, i+1)
	}
	// The ticker draws it: a line per read would cost more than the reads.
}

// Close takes the live lines away. It may be called twice.
func (p *Printer) Close() error {
	p.mu.Lock()
	was := p.closed
	p.closed = true
	p.mu.Unlock()
	if was {
		return nil
	}
	if p.o.Live {
		close(p.stop)
		p.stopped.Wait()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var b bytes.Buffer
	p.erase(&b)
	_, err := p.w.Write(b.Bytes())
	return err
}

// fit shortens a line to a number of columns.
func fit(s string, columns int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, s)
	if utf8.RuneCountInString(s) <= columns {
		return s
	}
	if columns < 1 {
		return ""
	}
	return string([]rune(s)[:columns-1]) + "…"
}

// place adds to a time where it was spent, if not here.
func place(s, where string) string {
	if where == "" {
		return s
	}
	return s + " " + where
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }
