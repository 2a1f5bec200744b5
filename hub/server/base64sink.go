package server

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
)

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
