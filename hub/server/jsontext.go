package server

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

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
