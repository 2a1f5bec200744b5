package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Upload names a large LFS object that arrives in parts. Uploads that agree in
// every field are one: whoever was interrupted goes on with it.
type Upload struct {
	SHA256 string
	// Size is the object's, Chunk that of each part but the last.
	Size, Chunk int64
	// Session is 32 hex digits that tell apart those who send the same object,
	// so that none can spoil another's.
	Session string
}

func (u Upload) check() error {
	if err := CheckSHA256(u.SHA256); err != nil {
		return err
	}
	if len(u.Session) != 32 || !isHex(u.Session) || u.Size < 1 || u.Chunk < 1 || u.parts() > 10_000 {
		return fmt.Errorf("%w upload: %d bytes in parts of %d, session %q", ErrInvalid, u.Size, u.Chunk, clip(u.Session))
	}
	return nil
}

func (u Upload) parts() int64 { return (u.Size-1)/u.Chunk + 1 }

// span is where part n, counted from 1, lies in the object.
func (u Upload) span(n int) (off, size int64) {
	off = int64(n-1) * u.Chunk
	return off, min(u.Chunk, u.Size-off)
}

// PartSize is how many bytes part n has.
func (u Upload) PartSize(n int) int64 {
	_, size := u.span(n)
	return size
}

// ETag is what the sender is told about part n and names when it is done. The
// whole is checked by its digest, so this is a name and no digest.
func (u Upload) ETag(n int) string { return fmt.Sprintf("%s.%d", u.Session, n) }

// maxIdle is how many uploads stay open though nobody sends to them.
const maxIdle = 16

func (r *Repo) partDir(session string) string { return filepath.Join(r.dir, "lfs", "parts", session) }

// take finds or opens an upload; give must follow.
func (r *Repo) take(u Upload) (*assembly, error) {
	if err := u.check(); err != nil {
		return nil, err
	}
	r.upMu.Lock()
	defer r.upMu.Unlock()
	if a := r.uploads[u]; a != nil {
		a.users++
		return a, nil
	}
	for v, a := range r.uploads {
		if len(r.uploads) >= maxIdle && a.users == 0 {
			a.close() // what it has stays on the disk
			delete(r.uploads, v)
		}
	}
	a, err := openAssembly(r.s.disk, r.partDir(u.Session), u)
	if err != nil {
		return nil, err
	}
	if r.uploads == nil {
		r.uploads = map[Upload]*assembly{}
	}
	a.users++
	r.uploads[u] = a
	return a, nil
}

// give ends the use of an upload; drop removes it from the disk too.
func (r *Repo) give(a *assembly, drop bool) {
	r.upMu.Lock()
	defer r.upMu.Unlock()
	a.users--
	if drop && r.uploads[a.u] == a {
		delete(r.uploads, a.u)
		os.RemoveAll(a.dir) // GC takes what stays
		a.dropped = true
	}
	if a.dropped && a.users == 0 {
		a.close()
	}
}

// dropUpload removes what is left of an upload that nobody uses.
func (r *Repo) dropUpload(dir string) (bool, error) {
	r.upMu.Lock()
	defer r.upMu.Unlock()
	for u, a := range r.uploads {
		if a.dir == dir {
			if a.users > 0 {
				return false, nil
			}
			a.close()
			delete(r.uploads, u)
		}
	}
	return true, os.RemoveAll(dir)
}

// PutPart receives part n, counted from 1, of an upload. It is not forced to
// the disk, as JoinParts checks the whole. A part that is sent again takes the
// place of the one before, also while that is still on its way.
func (r *Repo) PutPart(u Upload, n int, body io.Reader) error {
	if err := u.check(); err != nil {
		return err
	}
	if n < 1 || int64(n) > u.parts() {
		return fmt.Errorf("%w part number %d: want 1 to %d", ErrInvalid, n, u.parts())
	}
	if have, err := r.LFSSize(u.SHA256); err == nil && have == u.Size {
		_, err := io.Copy(io.Discard, body) // somebody else has brought it
		return err
	}
	a, err := r.take(u)
	if err != nil {
		return err
	}
	defer r.give(a, false)
	return a.receive(n, body)
}

// JoinParts makes an LFS object of an upload; etags are the names of its parts
// as the sender has them. The whole must have the announced digest; one that
// has another is thrown away. Joining twice is harmless.
func (r *Repo) JoinParts(ctx context.Context, u Upload, etags []string) error {
	if err := u.check(); err != nil {
		return err
	}
	if have, err := r.LFSSize(u.SHA256); err == nil && have == u.Size {
		_, _ = r.dropUpload(r.partDir(u.Session)) // GC takes what stays
		return nil
	}
	if int64(len(etags)) != u.parts() {
		return fmt.Errorf("%w upload: %d parts are named, %s has %d", ErrInvalid, len(etags), u.SHA256, u.parts())
	}
	for i, e := range etags {
		if e != u.ETag(i+1) {
			return fmt.Errorf("part %d of %s: never received with ETag %q: %w", i+1, u.SHA256, clip(e), ErrNoObject)
		}
	}
	a, err := r.take(u)
	if err != nil {
		return err
	}
	drop := false
	defer func() { r.give(a, drop) }()
	a.joinMu.Lock()
	defer a.joinMu.Unlock()
	if have, err := r.LFSSize(u.SHA256); err == nil && have == u.Size {
		return nil // by a call that came first
	}
	got, err := a.digest(ctx)
	if err != nil {
		drop = ctx.Err() == nil && !errors.Is(err, ErrNoObject) // cannot be read back
		return err
	}
	if got != u.SHA256 {
		drop = true
		return fmt.Errorf("%w content: its SHA-256 is %s, not %s", ErrInvalid, got, u.SHA256)
	}
	err = a.commit(r.lfsPath(u.SHA256))
	drop = err == nil
	return err
}

// errOvertaken ends a request whose part is being sent anew.
var errOvertaken = errors.New("the part is being received from another request")
