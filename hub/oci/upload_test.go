package oci

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/thox-ai/thoxbuild/hub/internal/hubtest"
)

// An upload goes on at a place that the registry names, but not on a plainer
// scheme, and a redirect leads nowhere else.
func TestUploadLocations(t *testing.T) {
	inner := inProcess()
	elsewhere := httptest.NewServer(inner)
	defer elsewhere.Close()
	var seen string
	for name, row := range map[string]struct {
		location string
		ok       bool
	}{
		"relative":         {"", true},
		"another host":     {elsewhere.URL, true},
		"another scheme":   {"ftp://127.0.0.1", false},
		"user information": {strings.Replace(elsewhere.URL, "//", "//u:p@", 1), false},
		"a redirect loop":  {"loop", false},
		"blobs elsewhere":  {"", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if name == "blobs elsewhere" && r.Method == http.MethodHead {
					http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
					return
				}
				if r.Method != http.MethodPost || !strings.Contains(r.URL.Path, "/uploads/") || row.location == "" {
					inner.ServeHTTP(w, r)
					return
				}
				if row.location == "loop" {
					http.Redirect(w, r, r.URL.String(), http.StatusTemporaryRedirect)
					return
				}
				rec := httptest.NewRecorder()
				inner.ServeHTTP(rec, r)
				seen = row.location + rec.Header().Get("Location")
				w.Header().Set("Location", seen)
				w.WriteHeader(rec.Code)
			}))
			defer s.Close()
			tg := target(t, "oci://"+strings.TrimPrefix(s.URL, "http://")+"/thox-ai/"+strings.ReplaceAll(name, " ", "-")+":v2")
			_, err := Push(t.Context(), PushOptions{Access: fast, Target: tg, Bundle: read(t, twoVariants(t, name))})
			if (err == nil) != row.ok {
				t.Errorf("upload at %q: %v", seen, err)
			}
		})
	}
}

// resumable stands before a registry and keeps the uploads itself, as the
// distribution specification has it: what arrived of a broken chunk stays, the
// status says how much that is, and a chunk that begins elsewhere is refused.
type resumable struct {
	next http.Handler
	mu   sync.Mutex
	got  map[string]*bytes.Buffer
	// broken counts the chunks of which only a half was read.
	chunks, broken, bytes int
}

// ServeHTTP implements http.Handler.
func (s *resumable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := r.URL.Path
	buf := s.got[path]
	status := func(code int) {
		w.Header().Set("Location", path)
		w.Header().Set("Range", fmt.Sprintf("0-%d", max(s.got[path].Len()-1, 0)))
		w.WriteHeader(code)
	}
	switch {
	case !strings.Contains(path, "/blobs/uploads/"):
		s.next.ServeHTTP(w, r)
	case r.Method == http.MethodPost:
		path += fmt.Sprint("s", len(s.got))
		s.got[path] = &bytes.Buffer{}
		status(http.StatusAccepted)
	case buf == nil:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodGet:
		status(http.StatusNoContent)
	case r.Method == http.MethodPatch:
		if from, _, _ := strings.Cut(r.Header.Get("Content-Range"), "-"); from != fmt.Sprint(buf.Len()) {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		if s.chunks++; s.chunks%4 == 2 { // half of it arrives
			s.broken++
			n, _ := io.CopyN(buf, r.Body, r.ContentLength/2)
			s.bytes += int(n)
			panic(http.ErrAbortHandler)
		}
		n, _ := io.Copy(buf, r.Body)
		s.bytes += int(n)
		status(http.StatusAccepted)
	case r.Method == http.MethodPut:
		_, _ = io.Copy(buf, r.Body)
		in := r.Clone(r.Context())
		in.Method, in.URL.Path = http.MethodPost, path[:strings.LastIndex(path, "/")+1]
		in.Body, in.ContentLength = io.NopCloser(buf), int64(buf.Len())
		s.next.ServeHTTP(w, in)
	}
}

// A large layer whose transfer breaks goes on where the registry says: no
// byte that has arrived is sent again.
func TestChunksGoOn(t *testing.T) {
	reg := &resumable{next: inProcess(), got: map[string]*bytes.Buffer{}}
	s := httptest.NewServer(reg)
	defer s.Close()
	dir := t.TempDir()
	noise := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	files := hubtest.Sample("a")
	files["_demo.abi3.so"] = string(noise)
	hubtest.WriteVariant(t, dir, hubtest.VariantA, 2, files, nil)
	a := fast
	a.Chunk = 256 << 10
	tg := target(t, "oci://"+strings.TrimPrefix(s.URL, "http://")+"/thox-ai/chunks:v2")
	r, err := Push(t.Context(), PushOptions{Access: a, Target: tg, Bundle: read(t, dir)})
	if err != nil {
		t.Fatal(err)
	}
	checkTag(t, tg, r)
	if reg.broken < 3 || reg.bytes < len(noise) || reg.bytes > len(noise)+100_000 {
		t.Errorf("%d of %d chunks broke off, and %d bytes arrived of %d", reg.broken, reg.chunks, reg.bytes, len(noise))
	}
}
