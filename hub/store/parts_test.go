package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
)

// upload makes random content and the upload that brings it.
func upload(seed uint64, size, chunk int64) (Upload, []byte) {
	var key [32]byte
	key[0] = byte(seed)
	data := make([]byte, size)
	rand.NewChaCha8(key).Read(data)
	sum := sha256.Sum256(data)
	return Upload{SHA256: hex.EncodeToString(sum[:]), Size: size, Chunk: chunk, Session: strings.Repeat("5a", 16)}, data
}

func (u Upload) part(data []byte, n int) []byte {
	off, size := u.span(n)
	return data[off : off+size]
}

func (u Upload) etags() (out []string) {
	for n := range u.parts() {
		out = append(out, u.ETag(int(n)+1))
	}
	return out
}

func wantObject(t *testing.T, r *Repo, u Upload, data []byte) {
	t.Helper()
	f, err := r.OpenLFS(u.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, _ := io.ReadAll(f); !bytes.Equal(got, data) {
		t.Error("the joined object differs from its parts")
	}
	if left, _ := os.ReadDir(r.partDir("")); len(left) > 0 {
		t.Errorf("%d uploads stayed on the disk", len(left))
	}
}

func TestMultipart(t *testing.T) {
	r := create(t, open(t, t.TempDir()))
	u, data := upload(1, 1010, 1000)
	if err := r.PutPart(u, 1, bytes.NewReader(u.part(data, 1))); err != nil {
		t.Fatal(err)
	}
	if err := r.JoinParts(t.Context(), u, u.etags()); !errors.Is(err, ErrNoObject) {
		t.Errorf("without the last part: %v", err)
	}
	if err := r.PutPart(u, 2, bytes.NewReader(u.part(data, 2)[:9])); !errors.Is(err, ErrInvalid) {
		t.Errorf("a short part: %v", err)
	}
	if err := r.PutPart(u, 3, bytes.NewReader(nil)); !errors.Is(err, ErrInvalid) {
		t.Errorf("a part too many: %v", err)
	}
	if err := r.PutPart(u, 2, bytes.NewReader(u.part(data, 2))); err != nil {
		t.Fatal(err)
	}
	e := u.etags()
	for name, bad := range map[string][]string{"one missing": e[:1], "swapped": {e[1], e[0]}, "one too many": append(slices.Clone(e), e[0])} {
		if err := r.JoinParts(t.Context(), u, bad); err == nil {
			t.Errorf("%s: joined", name)
		}
	}
	for range 2 {
		if err := r.JoinParts(t.Context(), u, e); err != nil {
			t.Fatal(err)
		}
	}
	wantObject(t, r, u, data)
}

// Parts in any order, some sent twice, some after a first try that broke off
// or held something else, some with the old request still writing.
func TestPartsTakeTurns(t *testing.T) {
	for seed := range uint64(15) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			r := create(t, open(t, t.TempDir()))
			u, data := upload(seed, 1<<20+rng.Int64N(5<<20), 200_000+rng.Int64N(2<<20))
			var wg sync.WaitGroup
			for _, n := range rng.Perm(int(u.parts())) {
				n, p := n+1, u.part(data, n+1)
				how, cut := rng.IntN(4), rng.IntN(len(p))
				wg.Go(func() {
					switch how {
					case 0: // broke off
						_ = r.PutPart(u, n, io.MultiReader(bytes.NewReader(p[:cut]), iotest.ErrReader(io.ErrUnexpectedEOF)))
					case 1: // other bytes first, as of a file that changed
						_ = r.PutPart(u, n, bytes.NewReader(slices.Concat(p[:cut], bytes.Repeat([]byte("x"), len(p)-cut))))
					case 2: // a zombie that goes on with other bytes when the part has been sent again
						pr, pw := io.Pipe()
						late := make(chan error, 1)
						go func() { late <- r.PutPart(u, n, pr); pr.Close() }()
						pw.Write(p[:cut])
						defer func() {
							pw.Write(bytes.Repeat([]byte("z"), len(p)-cut))
							pw.Close()
							if err := <-late; err == nil {
								t.Errorf("part %d: the request that was overtaken succeeded", n)
							}
						}()
					}
					if err := r.PutPart(u, n, iotest.HalfReader(bytes.NewReader(p))); err != nil {
						t.Errorf("part %d: %v", n, err)
					}
				})
			}
			wg.Wait()
			if err := r.JoinParts(t.Context(), u, u.etags()); err != nil {
				t.Fatal(err)
			}
			wantObject(t, r, u, data)
		})
	}
}

// Content with another digest is thrown away, and the next try starts clean.
func TestPartsOfAnotherDigest(t *testing.T) {
	r := create(t, open(t, t.TempDir()))
	u, data := upload(2, 3000, 1000)
	for n := 1; n <= 3; n++ {
		if err := r.PutPart(u, n, bytes.NewReader(u.part(data[:3000:3000], 4-n))); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.JoinParts(t.Context(), u, u.etags()); !errors.Is(err, ErrInvalid) {
		t.Errorf("joined in the wrong order: %v", err)
	}
	for n := 1; n <= 3; n++ {
		if err := r.PutPart(u, n, bytes.NewReader(u.part(data, n))); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.JoinParts(t.Context(), u, u.etags()); err != nil {
		t.Fatal(err)
	}
	wantObject(t, r, u, data)
}

// A process that finds an unfinished upload goes on with it.
func TestPartsOutliveTheProcess(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	u, data := upload(3, 3<<20, 1<<20)
	r := create(t, s)
	for _, n := range []int{1, 3} {
		if err := r.PutPart(u, n, bytes.NewReader(u.part(data, n))); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	s = open(t, dir)
	r, err := s.RepoByUID(r.UID())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.PutPart(u, 2, bytes.NewReader(u.part(data, 2))); err != nil {
		t.Fatal(err)
	}
	if err := r.JoinParts(t.Context(), u, u.etags()); err != nil {
		t.Fatal(err)
	}
	wantObject(t, r, u, data)
}

// GC takes an abandoned upload; one that was abandoned in memory only is taken
// from there too.
func TestGCTakesParts(t *testing.T) {
	s := open(t, t.TempDir())
	r := create(t, s)
	for i := range uint64(maxIdle + 5) {
		u, data := upload(i, 2000, 1000)
		u.Session = fmt.Sprintf("%032x", i)
		if err := r.PutPart(u, 1, bytes.NewReader(u.part(data, 1))); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.uploads) > maxIdle {
		t.Errorf("%d uploads are open, want at most %d", len(r.uploads), maxIdle)
	}
	rep, err := s.GC(t.Context(), GCOptions{Grace: -1})
	if err != nil || rep.Dirs != maxIdle+5 || len(r.uploads) != 0 {
		t.Errorf("%+v, %v; %d uploads are open", rep, err, len(r.uploads))
	}
}

// A disk that is full at any one step of an upload in parts: the same upload
// completes when there is room, and no wrong object appears meanwhile.
func TestPartsDiskFull(t *testing.T) {
	u, data := upload(4, 2500, 1000)
	for fail := range 100 {
		count, full := 0, true
		s, err := Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		r := create(t, s)
		s.disk.fault = func(op, path string) error {
			if count++; full && count-1 == fail {
				return syscall.ENOSPC
			}
			return nil
		}
		send := func() error {
			for n := 1; n <= 3; n++ {
				if err := r.PutPart(u, n, bytes.NewReader(u.part(data, n))); err != nil {
					return err
				}
			}
			return r.JoinParts(t.Context(), u, u.etags())
		}
		err = send()
		met := count > fail
		if met && !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("step %d: %v, want ENOSPC", fail, err)
		}
		if full = false; met {
			if err := send(); err != nil {
				t.Errorf("step %d: with room again: %v", fail, err)
			}
		}
		wantObject(t, r, u, data)
		s.Close()
		if !met {
			t.Logf("%d steps", fail)
			return
		}
	}
	t.Error("the upload has no end")
}
