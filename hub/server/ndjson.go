package server

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
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

// object reads the members of an object whose brace has been read.
func (s *lineScanner) object(seen map[string]bool, member func(key string) error) error {
	for first := true; ; first = false {
		b, err := s.skipSpace(false)
		if err != nil {
			return s.broken(err)
		}
		if b == '}' && first {
			return nil
		}
		if b != '"' {
			return s.errf("want a member name, not %q", b)
		}
		key, err := s.limited()
		if err != nil {
			return err
		}
		if seen[key] {
			return s.errf("%q twice", clip(key))
		}
		seen[key] = true
		if b, err = s.skipSpace(false); err != nil {
			return s.broken(err)
		}
		if b != ':' {
			return s.errf("want ':' after %q", clip(key))
		}
		if err := member(key); err != nil {
			return err
		}
		if b, err = s.skipSpace(false); err != nil {
			return s.broken(err)
		}
		switch b {
		case ',':
		case '}':
			return nil
		default:
			return s.errf("want ',' or '}', not %q", b)
		}
	}
}

// text reads a string, or null as the empty string.
func (s *lineScanner) text() (string, error) {
	b, err := s.skipSpace(false)
	if err != nil {
		return "", s.broken(err)
	}
	if b == 'n' {
		return "", s.literal("ull")
	}
	if b != '"' {
		return "", s.errf("want a string, not %q", b)
	}
	return s.limited()
}

func (s *lineScanner) limited() (string, error) {
	s.buf = s.buf[:0]
	err := s.body(func(p []byte) error {
		if len(s.buf)+len(p) > maxText {
			return s.errf("a string is longer than %d bytes", maxText)
		}
		s.buf = append(s.buf, p...)
		return nil
	})
	if err == nil && !utf8.Valid(s.buf) {
		return "", s.errf("a string is not UTF-8")
	}
	return string(s.buf), err
}

// str streams a string's unescaped bytes.
func (s *lineScanner) str(emit func([]byte) error) error {
	b, err := s.skipSpace(false)
	if err != nil {
		return s.broken(err)
	}
	if b != '"' {
		return s.errf("want a string, not %q", b)
	}
	return s.body(emit)
}

func (s *lineScanner) body(emit func([]byte) error) error {
	for {
		if _, err := s.r.Peek(1); err != nil {
			return s.broken(err)
		}
		chunk, _ := s.r.Peek(s.r.Buffered())
		n := 0
		for n < len(chunk) && chunk[n] != '"' && chunk[n] != '\\' && chunk[n] >= 0x20 {
			n++
		}
		if n > 0 {
			if err := emit(chunk[:n]); err != nil {
				return err
			}
			s.r.Discard(n)
			continue
		}
		switch b, _ := s.r.ReadByte(); b {
		case '"':
			return nil
		case '\\':
			if err := s.escape(emit); err != nil {
				return err
			}
		default:
			return s.errf("control character in a string")
		}
	}
}

var escapes = map[byte]string{'"': `"`, '\\': `\`, '/': "/", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t"}

func (s *lineScanner) escape(emit func([]byte) error) error {
	b, err := s.r.ReadByte()
	if err != nil {
		return s.broken(err)
	}
	if e, ok := escapes[b]; ok {
		return emit([]byte(e))
	}
	if b != 'u' {
		return s.errf("escape \\%c", b)
	}
	r, err := s.hex4()
	if err != nil {
		return err
	}
	if utf16.IsSurrogate(r) {
		// The second half follows, or the first stands for nothing.
		if next, err := s.r.Peek(2); err == nil && string(next) == `\u` {
			s.r.Discard(2)
			low, err := s.hex4()
			if err != nil {
				return err
			}
			if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
				return s.errf("half a surrogate pair")
			}
		} else {
			return s.errf("half a surrogate pair")
		}
	}
	return emit(utf8.AppendRune(nil, r))
}

func (s *lineScanner) hex4() (rune, error) {
	var b [4]byte
	if _, err := io.ReadFull(s.r, b[:]); err != nil {
		return 0, s.errf("cut off")
	}
	n, err := strconv.ParseUint(string(b[:]), 16, 32)
	if err != nil {
		return 0, s.errf("escape \\u%q", b[:])
	}
	return rune(n), nil
}

func (s *lineScanner) literal(rest string) error {
	b := make([]byte, len(rest))
	if _, err := io.ReadFull(s.r, b); err != nil || string(b) != rest {
		return s.errf("unknown word")
	}
	return nil
}

// scalar reads a number or a word up to what must follow it.
func (s *lineScanner) scalar(first byte) (string, error) {
	out := []byte{first}
	for {
		b, err := s.r.Peek(1)
		if err != nil {
			return "", s.broken(err)
		}
		if bytes.IndexByte([]byte(",}] \t\r\n"), b[0]) >= 0 {
			return string(out), nil
		}
		if len(out) > 40 {
			return "", s.errf("a number is too long")
		}
		out = append(out, b[0])
		s.r.Discard(1)
	}
}

func (s *lineScanner) integer() (int64, error) {
	b, err := s.skipSpace(false)
	if err != nil {
		return 0, s.broken(err)
	}
	word, err := s.scalar(b)
	if err != nil {
		return 0, err
	}
	if word == "null" {
		return -1, nil
	}
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil || n < 0 {
		return 0, s.errf("size %q: want a whole number of bytes", clip(word))
	}
	return n, nil
}

// skip passes over a value that nobody asked for.
func (s *lineScanner) skip(depth int) error {
	if depth > 50 {
		return s.errf("nested too deep")
	}
	b, err := s.skipSpace(false)
	if err != nil {
		return s.broken(err)
	}
	switch b {
	case '"':
		return s.body(func([]byte) error { return nil })
	case '{':
		return s.object(map[string]bool{}, func(string) error { return s.skip(depth + 1) })
	case '[':
		if b, err = s.skipSpace(false); err != nil {
			return s.broken(err)
		}
		if b == ']' {
			return nil
		}
		s.r.UnreadByte()
		for {
			if err := s.skip(depth + 1); err != nil {
				return err
			}
			if b, err = s.skipSpace(false); err != nil {
				return s.broken(err)
			}
			if b == ']' {
				return nil
			}
			if b != ',' {
				return s.errf("want ',' or ']', not %q", b)
			}
		}
	}
	word, err := s.scalar(b)
	if err != nil {
		return err
	}
	if word == "null" || word == "true" || word == "false" {
		return nil
	}
	if _, err := strconv.ParseFloat(word, 64); err != nil && !errors.Is(err, strconv.ErrRange) {
		return s.errf("unknown word %q", clip(word))
	}
	return nil
}

// base64Sink decodes what it is fed. It keeps the start of the text, as whether
// it is base64 at all may be said after it.
type base64Sink struct {
	w     io.Writer
	quad  []byte
	out   []byte
	plain []byte
	long  bool
	ended bool
	bad   bool
	err   error
}

func (b *base64Sink) feed(p []byte) error {
	if !b.long {
		if len(b.plain)+len(p) > maxPlain {
			b.long, b.plain = true, nil
		} else {
			b.plain = append(b.plain, p...)
		}
	}
	if b.err != nil {
		return nil // told by finish, once the encoding is known
	}
	if bytes.ContainsAny(p, "\r\n") { // the decoder would skip them
		b.bad, b.err = true, errors.New("base64: line break")
		return nil
	}
	b.quad = append(b.quad, p...)
	n := len(b.quad) / 4 * 4
	if err := b.decode(b.quad[:n]); err != nil {
		if !b.bad {
			return err // the disk, not the text
		}
		b.err = err
	}
	b.quad = append(b.quad[:0], b.quad[n:]...)
	return nil
}

func (b *base64Sink) decode(src []byte) error {
	if len(src) == 0 {
		return nil
	}
	if b.ended {
		b.bad = true
		return errors.New("base64: text after the padding")
	}
	want := base64.StdEncoding.DecodedLen(len(src))
	if cap(b.out) < want {
		b.out = make([]byte, want)
	}
	n, err := base64.StdEncoding.Strict().Decode(b.out[:want], src)
	if err != nil {
		b.bad = true
		return err
	}
	b.ended = n < want
	_, err = b.w.Write(b.out[:n])
	return err
}

func (b *base64Sink) finish() error {
	if b.err != nil {
		return b.err
	}
	if len(b.quad) > 0 {
		b.bad = true
		return errors.New("base64: length is no multiple of 4")
	}
	return nil
}

func clip(s string) string {
	if len(s) > 120 {
		return s[:120] + "..."
	}
	return s
}
