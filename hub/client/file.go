package client

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

// File is a local file on its way to a repository.
type File struct {
	// Path is where it goes: relative, with forward slashes.
	Path string
	Size int64
	// SHA256 is the hex digest of the content.
	SHA256 string
	// GitOID is the git blob id of the content, which the Hub names regular
	// files by. It may be empty for large files; GitBlobID computes it.
	GitOID string
	// Sample holds the first 512 bytes, by which the Hub judges the file.
	Sample []byte
	// Open opens the content. It is called once for every attempt.
	Open func() (ReadAtCloser, error)
}

// ReadAtCloser is what an upload reads from: parts of it at once and again.
type ReadAtCloser interface {
	io.ReaderAt
	io.Closer
}

// OpenFile returns an Open function for a path on disk. It fails when the
// file's size is no longer what it was.
func OpenFile(path string, size int64) func() (ReadAtCloser, error) {
	return func() (ReadAtCloser, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		st, err := f.Stat()
		if err == nil && st.Size() != size {
			err = fmt.Errorf("%s: changed while it was being published (%d bytes, then %d)", path, size, st.Size())
		}
		if err != nil {
			_ = f.Close()
			return nil, err
		}
		return f, nil
	}
}

// Progress receives bytes as they are sent. Add is called with a negative
// number when an attempt failed and its bytes will be sent again. It must be
// safe for concurrent use.
type Progress interface{ Add(n int64) }

// section is a body over n bytes of a file from off on.
func (f File) section(off, n int64, p Progress) *body {
	return &body{n, func() (io.ReadCloser, error) {
		r, err := f.Open()
		if err != nil {
			return nil, err
		}
		return &sectionBody{r: io.NewSectionReader(r, off, n), c: r, left: n, p: p}, nil
	}}
}

// sectionBody reads a section, counts it, and notices a file that got shorter.
type sectionBody struct {
	mu   sync.Mutex
	r    io.Reader
	c    io.Closer
	left int64
	sent int64
	p    Progress
	done bool
}

// Read implements io.Reader.
func (b *sectionBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return 0, fs.ErrClosed
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	b.sent += int64(n)
	if b.p != nil && n > 0 {
		b.p.Add(int64(n))
	}
	if errors.Is(err, io.EOF) && b.left > 0 {
		err = permanent(fmt.Errorf("the file got shorter while it was being sent: %w", io.ErrUnexpectedEOF))
	}
	return n, err
}

// Close implements io.Closer. The transport may call it more than once.
func (b *sectionBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return nil
	}
	b.done = true
	return b.c.Close()
}

// undo takes the bytes of a failed attempt back from the progress.
type undo struct {
	p Progress
	n int64
	sync.Mutex
}

// Add implements Progress.
func (u *undo) Add(n int64) {
	u.Lock()
	u.n += n
	u.Unlock()
	if u.p != nil {
		u.p.Add(n)
	}
}

// reset is called before each attempt.
func (u *undo) reset() {
	u.Lock()
	n := u.n
	u.n = 0
	u.Unlock()
	if u.p != nil && n != 0 {
		u.p.Add(-n)
	}
}

// counted wraps a body so that each attempt starts its count anew.
func counted(f File, off, n int64, p Progress) *body {
	u := &undo{p: p}
	b := f.section(off, n, u)
	open := b.open
	b.open = func() (io.ReadCloser, error) {
		u.reset()
		return open()
	}
	return b
}
