package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// commitLine is one line of a commit's body.
type commitLine struct {
	Key string
	// The header.
	Summary, Description, Parent string
	// The operations.
	Path, OldPath, Algo, OID string
	Size                     int64 // -1 when absent
	HasContent               bool
}

// contentSink receives a file's decoded content. Begin is called once for each
// content, before its first byte.
type contentSink interface {
	Begin() error
	io.Writer
}

const (
	maxText  = 64 << 10 // of every string but content
	maxPlain = 1 << 20  // of content that is not base64
)

// lineScanner reads the newline-separated JSON objects of a commit without
// holding a line in memory: a line has the size of a file.
type lineScanner struct {
	r    *bufio.Reader
	line int
	sink contentSink
	buf  []byte
}

func newLineScanner(r io.Reader, sink contentSink) *lineScanner {
	return &lineScanner{r: bufio.NewReaderSize(r, 64<<10), line: 1, sink: sink}
}

func (s *lineScanner) errf(format string, args ...any) error {
	return badRequest("commit body, line %d: %s", s.line, fmt.Sprintf(format, args...))
}

// broken tells a connection that broke from a body that is wrong.
func (s *lineScanner) broken(err error) error {
	if errors.Is(err, io.EOF) {
		return s.errf("cut off")
	}
	return err
}

func (s *lineScanner) skipSpace(newlines bool) (byte, error) {
	for {
		b, err := s.r.ReadByte()
		if err != nil {
			return 0, err
		}
		switch b {
		case ' ', '\t', '\r':
		case '\n':
			s.line++
			if !newlines {
				return 0, s.errf("a line ends inside an object")
			}
		default:
			return b, nil
		}
	}
}

// next returns io.EOF after the last line.
func (s *lineScanner) next() (commitLine, error) {
	l := commitLine{Size: -1}
	b, err := s.skipSpace(true)
	if err != nil {
		return l, err
	}
	if b != '{' {
		return l, s.errf("want a JSON object, not %q", b)
	}
	seen := map[string]bool{}
	err = s.object(seen, func(key string) error {
		switch key {
		case "key":
			l.Key, err = s.text()
			return err
		case "value":
			b, err := s.skipSpace(false)
			if err != nil {
				return s.broken(err)
			}
			if b != '{' {
				return s.errf("value: want an object")
			}
			return s.value(&l)
		}
		return s.skip(0)
	})
	if err != nil {
		return l, err
	}
	if !seen["key"] || !seen["value"] {
		return l, s.errf("want an object with key and value")
	}
	// The rest of the line must be empty.
	for {
		b, err := s.r.ReadByte()
		if errors.Is(err, io.EOF) {
			return l, nil
		}
		if err != nil {
			return l, err
		}
		if b == '\n' {
			s.line++
			return l, nil
		}
		if b != ' ' && b != '\t' && b != '\r' {
			return l, s.errf("text after the object")
		}
	}
}

func (s *lineScanner) value(l *commitLine) error {
	encoding := "base64"
	var dec *base64Sink
	err := s.object(map[string]bool{}, func(key string) (err error) {
		switch key {
		case "summary":
			l.Summary, err = s.text()
		case "description":
			l.Description, err = s.text()
		case "parentCommit":
			l.Parent, err = s.text()
		case "path":
			l.Path, err = s.text()
		case "oldPath":
			l.OldPath, err = s.text()
		case "algo":
			l.Algo, err = s.text()
		case "oid":
			l.OID, err = s.text()
		case "encoding":
			encoding, err = s.text()
		case "size":
			l.Size, err = s.integer()
		case "content":
			if err := s.sink.Begin(); err != nil {
				return err
			}
			l.HasContent = true
			dec = &base64Sink{w: s.sink}
			err = s.str(dec.feed)
		default:
			err = s.skip(0)
		}
		return err
	})
	if err != nil || dec == nil {
		return err
	}
	switch encoding {
	case "base64":
		if err := dec.finish(); err != nil {
			if dec.bad {
				return s.errf("content of %q: %v", clip(l.Path), err)
			}
			return err
		}
	case "utf-8", "utf8":
		if dec.long {
			return s.errf("content of %q: longer than %d bytes; send it as base64", clip(l.Path), maxPlain)
		}
		if err := s.sink.Begin(); err != nil {
			return err
		}
		if _, err := s.sink.Write(dec.plain); err != nil {
			return err
		}
	default:
		return s.errf("encoding %q: want base64 or utf-8", clip(encoding))
	}
	return nil
}

func clip(s string) string {
	if len(s) > 120 {
		return s[:120] + "..."
	}
	return s
}
