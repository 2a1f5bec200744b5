package command

import (
	"errors"
	"io"
	"os"
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

// whenUnread returns the same streams, and calls end when a write finds that
// the reader of Out or Err has gone.
func (s *Streams) whenUnread(end func()) *Streams {
	watched := *s
	watched.Out, watched.Err = watchedWriter{s.Out, end}, watchedWriter{s.Err, end}
	return &watched
}

type watchedWriter struct {
	w      io.Writer
	unread func()
}

func (w watchedWriter) Write(b []byte) (int, error) {
	n, err := w.w.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		w.unread()
	}
	return n, err
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
