package command

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/term"
)

// Streams are a command's input and outputs. Out carries the answer, which a
// program may read; Err carries the conversation.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer

	// OutColor and ErrColor are true where the stream is a terminal that
	// wants colour. ErrTTY also allows progress lines that move the cursor.
	OutColor, ErrColor, ErrTTY bool
	// ErrWidth is the terminal's width in columns, 0 where unknown.
	ErrWidth int
}

// OSStreams connects the process's own streams. Colour follows NO_COLOR and
// TERM as their conventions say; a pipe or a file never gets any.
func OSStreams() *Streams {
	color := os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	tty := func(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
	width, _, err := term.GetSize(int(os.Stderr.Fd()))
	if err != nil {
		width = 0
	}
	return &Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		OutColor: color && tty(os.Stdout),
		ErrColor: color && tty(os.Stderr),
		ErrTTY:   tty(os.Stderr) && os.Getenv("TERM") != "dumb",
		ErrWidth: width,
	}
}

// watch returns the same streams, and calls unread when a write finds that the
// reader of Out or Err has gone. answer is the first error of a write to Out,
// whether or not the verb that wrote looked at it.
func (s *Streams) watch(unread func()) (watched *Streams, answer func() error) {
	w := *s
	out := &watchedWriter{w: s.Out, unread: unread}
	w.Out, w.Err = out, &watchedWriter{w: s.Err, unread: unread}
	return &w, out.failed
}

type watchedWriter struct {
	w      io.Writer
	unread func()

	mu    sync.Mutex
	first error // guarded by mu
}

func (w *watchedWriter) Write(b []byte) (int, error) {
	n, err := w.w.Write(b)
	if err != nil {
		w.mu.Lock()
		if w.first == nil {
			w.first = err
		}
		w.mu.Unlock()
	}
	if errors.Is(err, syscall.EPIPE) {
		w.unread()
	}
	return n, err
}

func (w *watchedWriter) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.first
}

type color string

const (
	red    color = "\x1b[31m"
	green  color = "\x1b[32m"
	yellow color = "\x1b[33m"
	cyan   color = "\x1b[36m"
	faint  color = "\x1b[2m"
)

// paint colours text for Err where Err wants colour.
func (s *Streams) paint(c color, text string) string {
	if !s.ErrColor {
		return text
	}
	return string(c) + text + "\x1b[0m"
}
