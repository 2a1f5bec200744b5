package store

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// assembly is an upload on the disk. Each part is written where it belongs in
// one file, and what has arrived without a gap is hashed meanwhile, so that
// little is left to do when the last part is there.
//
// A client whose connection broke sends a part again while the old request may
// still hang here. So each request gets a turn at the part, and one that was
// overtaken can write no more; bytes that come again are compared, and where
// they differ the hash starts over.
type assembly struct {
	u   Upload
	d   *disk
	dir string
	f   *os.File
	// log lists the parts that are complete, a number a line, for a process
	// that finds the upload after this one was killed.
	log   *os.File
	parts []part
	// joinMu lets one caller finish the upload.
	joinMu sync.Mutex

	// users and dropped are guarded by the repository's upMu.
	users   int
	dropped bool

	mu     sync.Mutex
	sum    hash.Hash
	hashed int64
	// epoch counts the times that bytes below the mark were replaced.
	epoch int
	// idle is closed when the hashing that is under way stops; nil while there
	// is none.
	idle chan struct{}
	err  error // of reading what was written
}

type part struct {
	mu   sync.Mutex // held while bytes are written
	turn int
	done bool
	got  atomic.Int64 // bytes that are there without a gap
}

// piece is how much is read, written and hashed at a time.
const piece = 256 << 10

func openAssembly(d *disk, dir string, u Upload) (*assembly, error) {
	a := &assembly{u: u, d: d, dir: dir, sum: newHash(), parts: make([]part, u.parts())}
	if err := a.open(); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

func (a *assembly) open() (err error) {
	if err := a.d.mkdir(a.dir); err != nil {
		return err
	}
	if err := a.d.step("create", a.dir); err != nil {
		return err
	}
	if a.f, err = os.OpenFile(filepath.Join(a.dir, "data"), os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return err
	}
	if a.log, err = os.OpenFile(filepath.Join(a.dir, "parts"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644); err != nil {
		return err
	}
	fi, err := a.f.Stat()
	if err != nil {
		return err
	}
	if fi.Size() == a.u.Size {
		return a.resume()
	}
	err = a.d.step("allocate", a.f.Name())
	if err == nil {
		err = allocate(a.f, a.u.Size)
	}
	if err != nil {
		os.RemoveAll(a.dir) // what was allocated so far would keep the disk full
	}
	return err
}

// resume takes over what an earlier process received.
func (a *assembly) resume() error {
	b, err := io.ReadAll(a.log)
	if err != nil {
		return err
	}
	for s := range strings.SplitSeq(string(b), "\n") {
		if n, err := strconv.Atoi(s); err == nil && n >= 1 && n <= len(a.parts) {
			p := &a.parts[n-1]
			_, size := a.u.span(n)
			p.done = true
			p.got.Store(size)
		}
	}
	return nil
}

func (a *assembly) close() {
	for _, f := range []*os.File{a.f, a.log} {
		if f != nil {
			f.Close()
		}
	}
}

// receive takes a part's turn and writes its bytes.
func (a *assembly) receive(n int, body io.Reader) error {
	p := &a.parts[n-1]
	p.mu.Lock()
	p.turn++
	turn := p.turn
	p.mu.Unlock()
	off, size := a.u.span(n)
	buf := make([]byte, piece)
	for at := int64(0); at < size; {
		m, err := body.Read(buf[:min(int64(len(buf)), size-at)])
		if m > 0 {
			if err := a.place(p, turn, off, at, buf[:m]); err != nil {
				return err
			}
			a.advance(false)
			at += int64(m)
		}
		if err != nil && at < size {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("%w part: it has %d bytes, not %d", ErrInvalid, at, size)
			}
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.turn != turn {
		return errOvertaken
	}
	if !p.done {
		if err := a.d.step("write", a.log.Name()); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(a.log, n); err != nil {
			return err
		}
		p.done = true
	}
	startWriteback(a.f, off, size)
	return nil
}

// place writes data at byte at of the part that begins at off.
func (a *assembly) place(p *part, turn int, off, at int64, data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.turn != turn {
		return errOvertaken
	}
	if again := min(p.got.Load()-at, int64(len(data))); again > 0 {
		old := make([]byte, again)
		if _, err := a.f.ReadAt(old, off+at); err != nil {
			return err
		}
		if bytes.Equal(old, data[:again]) {
			at, data = at+again, data[again:]
		} else {
			p.got.Store(at)
			a.forget(off + at)
		}
	}
	if len(data) == 0 {
		return nil
	}
	if err := a.d.step("write", a.f.Name()); err != nil {
		return err
	}
	if _, err := a.f.WriteAt(data, off+at); err != nil {
		return err
	}
	p.got.Store(at + int64(len(data)))
	return nil
}

// forget is called before bytes from off on are replaced.
func (a *assembly) forget(off int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.epoch++
	if a.hashed > off {
		a.hashed = 0
		a.sum.Reset()
	}
}

// ready is up to where the bytes are there without a gap. a.mu is held.
func (a *assembly) ready() int64 {
	for i := a.hashed / a.u.Chunk; i < int64(len(a.parts)); i++ {
		off, size := a.u.span(int(i) + 1)
		if got := a.parts[i].got.Load(); got < size {
			return max(off+got, a.hashed)
		}
	}
	return a.u.Size
}

// advance starts hashing if enough has arrived for it and returns what is
// closed when that stops; all takes any amount for enough.
func (a *assembly) advance(all bool) <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.idle == nil && a.err == nil {
		if n := a.ready() - a.hashed; n >= 4*piece || all && n > 0 {
			a.idle = make(chan struct{})
			go a.hash()
		}
	}
	return a.idle
}

// hash hashes until there is nothing left to hash.
func (a *assembly) hash() {
	buf := make([]byte, piece)
	a.mu.Lock()
	defer a.mu.Unlock()
	defer func() {
		close(a.idle)
		a.idle = nil
	}()
	for {
		n := min(a.ready()-a.hashed, piece)
		if n == 0 || n < piece && a.hashed+n < a.u.Size {
			return
		}
		epoch, at := a.epoch, a.hashed
		a.mu.Unlock()
		_, err := a.f.ReadAt(buf[:n], at)
		a.mu.Lock()
		if err != nil {
			a.err = err
			return
		}
		if a.epoch == epoch {
			a.sum.Write(buf[:n])
			a.hashed += n
		}
	}
}

// digest ends all receiving and returns the digest of the whole.
func (a *assembly) digest(ctx context.Context) (string, error) {
	for i := range a.parts {
		p := &a.parts[i]
		p.mu.Lock()
		p.turn++
		done := p.done
		_, size := a.u.span(i + 1)
		p.mu.Unlock()
		if !done || p.got.Load() != size {
			return "", fmt.Errorf("part %d of %s was never received: %w", i+1, a.u.SHA256, ErrNoObject)
		}
	}
	for {
		idle := a.advance(true)
		if idle == nil {
			break
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil || a.hashed != a.u.Size {
		return "", fmt.Errorf("read back the upload of %s: %d of %d bytes: %w", a.u.SHA256, a.hashed, a.u.Size, errors.Join(a.err, fs.ErrClosed))
	}
	return hex.EncodeToString(a.sum.Sum(nil)), nil
}

// commit makes the bytes durable and then visible under path.
func (a *assembly) commit(path string) error {
	if err := a.d.step("sync", a.f.Name()); err != nil {
		return err
	}
	if err := a.f.Sync(); err != nil {
		return err
	}
	if err := a.d.mkdir(filepath.Dir(path)); err != nil {
		return err
	}
	if err := a.d.step("rename", path); err != nil {
		return err
	}
	if err := os.Rename(a.f.Name(), path); err != nil {
		return err
	}
	return a.d.syncDir(filepath.Dir(path))
}
