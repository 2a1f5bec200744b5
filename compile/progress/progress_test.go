package progress

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/thox-ai/thoxbuild/compile"
	"github.com/thox-ai/thoxbuild/compile/action"
)

// screen is as much of a terminal as the printer uses.
type screen struct {
	lines []string
	row   int
}

func (s *screen) Write(b []byte) (int, error) {
	text := string(b)
	for len(text) > 0 {
		switch {
		case strings.HasPrefix(text, "\x1b[J"):
			s.lines = s.lines[:s.row]
			text = text[3:]
		case strings.HasPrefix(text, "\x1b["):
			n, rest, ok := strings.Cut(text[2:], "A")
			up, err := strconv.Atoi(n)
			if !ok || err != nil || up > s.row {
				return 0, errors.New("bad escape in " + strconv.Quote(text))
			}
			s.row -= up
			text = rest
		default:
			line, rest, ok := strings.Cut(text, "\n")
			if !ok {
				return 0, errors.New("half a line: " + strconv.Quote(text))
			}
			s.lines = append(s.lines[:s.row], line)
			s.row++
			text = rest
		}
	}
	return len(b), nil
}

var (
	slow = &compile.Action{Label: "compile norm.cu (cu130)"}
	fast = &compile.Action{Label: "compile a source with a name so long that it can never fit into the terminal.cpp"}
	link = &compile.Action{Label: "link torch213-cxx11-cpu-x86_64-linux"}
)

func events() []compile.Event {
	return []compile.Event{
		{Type: compile.EventCached, Action: link, Result: &action.Result{Log: []byte("old warning\n")}, Done: 1, Total: 4},
		{Type: compile.EventQueued, Action: slow, Done: 1, Total: 4},
		{Type: compile.EventStarted, Action: slow, Done: 1, Total: 4},
		{Type: compile.EventStarted, Action: fast, Done: 1, Total: 4},
		{Type: compile.EventFinished, Action: fast, Result: &action.Result{Wall: 1500 * time.Millisecond, Log: []byte("new warning")}, Done: 2, Total: 4},
		{Type: compile.EventFailed, Action: slow, Err: errors.New("no"), Done: 4, Total: 4},
		{Type: compile.EventVariant, Variant: &compile.VariantResult{Name: "v1", Cached: true}},
		{Type: compile.EventVariant, Variant: &compile.VariantResult{Name: "v2"}, Err: errors.New("no")},
	}
}

const want = `# link torch213-cxx11-cpu-x86_64-linux
old warning
[2/4] compile a source with a name so long that it can never fit into the terminal.cpp (1.5s)
# compile a source with a name so long that it can never fit into the terminal.cpp
new warning
[4/4] FAILED compile norm.cu (cu130)
unchanged v1
`

func TestPlain(t *testing.T) {
	var b bytes.Buffer
	p := New(&b, Options{Variants: true})
	for _, e := range events() {
		p.Observe(e)
	}
	if err := p.Close(); err != nil || b.String() != want {
		t.Errorf("%v, got:\n%s\nwant:\n%s", err, b.String(), want)
	}
}

// A terminal shows the running actions, and in the end what a file would hold.
func TestLive(t *testing.T) {
	s := &screen{}
	now := time.Unix(100, 0)
	p := New(s, Options{Live: true, Width: 40, Variants: true, Now: func() time.Time { return now }})
	defer p.Close()
	all := events()
	for _, e := range all[:4] {
		p.Observe(e)
	}
	p.mu.Lock()
	now = now.Add(3 * time.Second)
	p.draw(nil)
	live := strings.Join(s.lines, "\n")
	p.mu.Unlock()
	for _, w := range []string{"[1/4] 2 running, 1 from the cache", "3.0s  compile norm.cu (cu130)", "…"} {
		if !strings.Contains(live, w) {
			t.Errorf("screen:\n%s\nwant %q on it", live, w)
		}
	}
	for _, l := range s.lines[2:] {
		if utf8.RuneCountInString(l) >= 40 {
			t.Errorf("line %q wraps", l)
		}
	}
	for _, e := range all[4:] {
		p.Observe(e)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if got := strings.Join(s.lines, "\n") + "\n"; got != want {
		t.Errorf("left on the screen:\n%s\nwant:\n%s", got, want)
	}
}

func TestManyRunning(t *testing.T) {
	s := &screen{}
	p := New(s, Options{Live: true, Rows: 2})
	for range 5 {
		p.Observe(compile.Event{Type: compile.EventStarted, Action: &compile.Action{Label: "x"}, Total: 5})
	}
	p.mu.Lock()
	n, last := len(s.lines), s.lines[len(s.lines)-1]
	p.mu.Unlock()
	if n != 4 || last != "  and 3 more" {
		t.Errorf("%d lines, the last %q", n, last)
	}
	if err := p.Close(); err != nil || len(s.lines) != 0 {
		t.Errorf("%v, left %q", err, s.lines)
	}
}

func TestTransfer(t *testing.T) {
	var b bytes.Buffer
	p := New(&b, Options{})
	p.Transfer("zig.whl", 1, 100)
	p.Transfer("zig.whl", 100, 100)
	p.Transfer("torch.whl", 5, 0)
	p.Transfer("zig.whl", 100, 100) // several may be under way
	p.Close()
	p.Transfer("late.whl", 1, 2)
	if got, want := b.String(), "fetching zig.whl\nfetching torch.whl\n"; got != want {
		t.Errorf("plain output %q, want %q", got, want)
	}
	b.Reset()
	p = New(&b, Options{Live: true})
	p.Transfer("small.whl", 1, 2)
	p.Transfer("zig.whl", 50e6, 100e6)
	p.Transfer("torch.whl", 5e6, 0)
	p.Transfer("small.whl", 2, 2) // is there
	p.Printf("a line")
	p.Close()
	if got := b.String(); !strings.HasPrefix(got, "a line\nfetching zig.whl  50.0 MB of 100.0 MB\nfetching torch.whl  5.0 MB\n\x1b[") {
		t.Errorf("live output %q", got)
	}
	p.Close() // twice is harmless
}

// What runs elsewhere says so, while it runs and when it has ended; what turns
// out to be known there is running no more.
func TestElsewhere(t *testing.T) {
	var plain bytes.Buffer
	live := &screen{}
	for _, p := range []*Printer{New(&plain, Options{}), New(live, Options{Live: true, Now: func() time.Time { return time.Time{} }})} {
		p.Observe(compile.Event{Type: compile.EventStarted, Action: slow, Where: "remote", Total: 3})
		p.Observe(compile.Event{Type: compile.EventStarted, Action: link, Total: 3})
		if p.o.Live && !strings.Contains(strings.Join(live.lines, "\n"), "0.0s remote  compile norm.cu (cu130)\n    0.0s  link ") {
			t.Errorf("live lines %q", live.lines)
		}
		p.Observe(compile.Event{Type: compile.EventCached, Action: slow, Result: &action.Result{Where: "remote", Cached: true}, Done: 1, Total: 3})
		if p.o.Live && strings.Contains(strings.Join(live.lines, "\n"), "norm.cu") {
			t.Errorf("live lines %q: it does not run", live.lines)
		}
		p.Observe(compile.Event{Type: compile.EventFinished, Action: fast, Result: &action.Result{Where: "remote", Wall: time.Second}, Done: 2, Total: 3})
		p.Close()
	}
	if want := "[2/3] " + fast.Label + " (1.0s remote)\n"; plain.String() != want {
		t.Errorf("got %q, want %q", plain.String(), want)
	}
}
