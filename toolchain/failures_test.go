package toolchain

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/thox-ai/thoxbuild/manifests"
)

const torchFile = "torch-2.13.1-cp311-cp311-manylinux_2_28_x86_64.whl"

// testIndex is a package index with one torch wheel, whose faults are switches.
type testIndex struct {
	*httptest.Server
	wheel    []byte
	hash     string // what the page claims; empty leaves it out
	noRange  bool
	busy     atomic.Int32 // answers 503 so many times
	cut      atomic.Int32 // cuts so many bodies in half
	fileHits atomic.Int32
}

func newTestIndex(t *testing.T, wheel []byte) *testIndex {
	t.Helper()
	old := backoffUnit
	backoffUnit = time.Millisecond
	t.Cleanup(func() { backoffUnit = old })
	sum := sha256.Sum256(wheel)
	x := &testIndex{wheel: wheel, hash: hex.EncodeToString(sum[:])}
	x.Server = httptest.NewServer(http.HandlerFunc(x.serve))
	t.Cleanup(x.Close)
	return x
}

func (x *testIndex) serve(w http.ResponseWriter, r *http.Request) {
	if x.busy.Add(-1) >= 0 {
		w.Header().Set("Retry-After", "0")
		w.WriteHeader([]int{503, 429}[x.busy.Load()&1])
		return
	}
	if !strings.HasSuffix(r.URL.Path, ".whl") {
		hashes := map[string]string{}
		if x.hash != "" {
			hashes["sha256"] = x.hash
		}
		w.Header().Set("Content-Type", "application/vnd.pypi.simple.v1+json")
		json.NewEncoder(w).Encode(map[string]any{"files": []any{
			map[string]any{"filename": torchFile, "url": "/files/" + torchFile, "hashes": hashes, "size": len(x.wheel)},
			map[string]any{"filename": strings.Replace(torchFile, "2.13.1", "2.13.2rc1", 1), "url": "/none", "hashes": hashes},
		}})
		return
	}
	x.fileHits.Add(1)
	if x.cut.Add(-1) >= 0 {
		rec := httptest.NewRecorder()
		http.ServeContent(rec, r, "", time.Time{}, bytes.NewReader(x.wheel))
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(rec.Code)
		w.Write(rec.Body.Bytes()[:rec.Body.Len()/2])
		panic(http.ErrAbortHandler)
	}
	if x.noRange {
		w.Write(x.wheel)
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(x.wheel))
}

// torchWheel makes a wheel with headers and a RECORD; lie breaks one of its
// lines.
func torchWheel(t testing.TB, lie bool) []byte {
	t.Helper()
	var b, record bytes.Buffer
	z := zip.NewWriter(&b)
	add := func(name, text string) {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 20 {
		name, text := fmt.Sprintf("torch/include/ATen/h%02d.h", i), fmt.Sprintf("#define H %d\n", i)
		sum := sha256.Sum256([]byte(text))
		if lie && i == 7 {
			sum[0]++
		}
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(text))
		add(name, text)
	}
	add("torch-2.13.1.dist-info/RECORD", record.String())
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (x *testIndex) open(t testing.TB, dir string, lock *Lock) *Store {
	t.Helper()
	s, err := Open(Options{Dir: dir, IndexURL: x.URL + "/simple/", Lock: lock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

// headers and whole are the two ways in which a package is fetched.
func headers(s *Store) (string, error) {
	return s.torchHeaders(context.Background(), manifests.MustVersion("2.13"), manifests.Platform{Arch: manifests.X86_64, OS: manifests.Linux})
}

func whole(s *Store) (string, error) {
	p, err := s.torchPackage(context.Background(), manifests.MustVersion("2.13"), manifests.Platform{Arch: manifests.X86_64, OS: manifests.Linux})
	if err != nil {
		return "", err
	}
	return s.wheelEntry(context.Background(), p, "whole", func(name string) string { return name })
}

var ways = map[string]func(*Store) (string, error){"ranges": headers, "whole": whole}

// entries are the finished entries of a store.
func entries(t *testing.T, s *Store) int {
	t.Helper()
	es, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	return len(es)
}

func TestFaultsAreNamedAndLeaveNothing(t *testing.T) {
	tests := []struct {
		name, way string
		wheel     func(testing.TB) []byte
		fault     func(*testIndex)
		want      string
	}{
		{"no hashes", "ranges", nil, func(x *testIndex) { x.hash = "" }, "no sha256"},
		{"no hashes", "whole", nil, func(x *testIndex) { x.hash = "" }, "no sha256"},
		{"ranges ignored", "ranges", nil, func(x *testIndex) { x.noRange = true }, "ignores Range"},
		{"wrong hash", "whole", nil, func(x *testIndex) { x.hash = strings.Repeat("ab", 32) }, "expected abab"},
		{"RECORD disagrees", "ranges", func(t testing.TB) []byte { return torchWheel(t, true) }, func(*testIndex) {}, "h07.h"},
		{"always cut", "whole", nil, func(x *testIndex) { x.noRange = true; x.cut.Store(1000) }, "EOF"},
		{"always busy", "whole", nil, func(x *testIndex) { x.busy.Store(1000) }, "answered"},
	}
	for _, tt := range tests {
		t.Run(tt.name+" "+tt.way, func(t *testing.T) {
			wheel := torchWheel(t, false)
			if tt.wheel != nil {
				wheel = tt.wheel(t)
			}
			x := newTestIndex(t, wheel)
			good := x.hash
			tt.fault(x)
			dir := t.TempDir()
			s := x.open(t, dir, nil)
			_, err := ways[tt.way](s)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, expected it to say %q", err, tt.want)
			}
			var e *Error
			if !errors.As(err, &e) || e.Hint == "" {
				t.Errorf("no hint with %v", err)
			}
			if n := entries(t, s); n != 0 {
				t.Errorf("%d entries are left behind", n)
			}
			if tt.wheel != nil {
				return
			}
			x.hash, x.noRange = good, false
			x.busy.Store(0)
			x.cut.Store(0)
			if _, err := ways[tt.way](x.open(t, dir, nil)); err != nil {
				t.Errorf("the next run with a sound index: %v", err)
			}
		})
	}
}

func TestTransfersAreTriedAgain(t *testing.T) {
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			x := newTestIndex(t, torchWheel(t, false))
			x.busy.Store(2)
			x.cut.Store(2)
			s := x.open(t, t.TempDir(), nil)
			dir, err := way(s)
			if err != nil {
				t.Fatal(err)
			}
			found, _ := filepath.Glob(filepath.Join(s.Real(dir+"/"), "*", "ATen", "h*.h"))
			deep, _ := filepath.Glob(filepath.Join(s.Real(dir+"/"), "*", "*", "ATen", "h*.h"))
			if len(found)+len(deep) != 20 {
				t.Errorf("%d headers, expected 20", len(found)+len(deep))
			}
		})
	}
}

func TestLockPinsBytes(t *testing.T) {
	x := newTestIndex(t, torchWheel(t, false))
	lock := &Lock{}
	if _, err := headers(x.open(t, t.TempDir(), lock)); err != nil {
		t.Fatal(err)
	}
	if text := string(lock.Bytes()); strings.Contains(text, x.URL) || !strings.Contains(text, `"record"`) {
		t.Errorf("the lock must name no address and must pin RECORD:\n%s", text)
	}
	again, err := ParseLock(lock.Bytes())
	if err != nil || !bytes.Equal(again.Bytes(), lock.Bytes()) {
		t.Fatalf("the lock does not read back to itself: %v", err)
	}
	x.hash = strings.Repeat("cd", 32)
	if _, err := headers(x.open(t, t.TempDir(), again)); err == nil || !strings.Contains(err.Error(), "toolchain.lock") {
		t.Errorf("error %v, expected the lock's name", err)
	}
	// Same claimed hash, other bytes: only RECORD's pin can tell.
	other := newTestIndex(t, torchWheel(t, true))
	other.hash = again.packages["torch 2.13 x86_64"].SHA256
	if _, err := headers(other.open(t, t.TempDir(), again)); err == nil || !strings.Contains(err.Error(), "RECORD has sha256") {
		t.Errorf("error %v, expected it to name RECORD", err)
	}
}

func TestOfflineUsesTheStoreOnly(t *testing.T) {
	x := newTestIndex(t, torchWheel(t, false))
	dir, lock := t.TempDir(), &Lock{}
	offline := func(d string, l *Lock) error {
		s, err := Open(Options{Dir: d, IndexURL: x.URL, Offline: true, Lock: l})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close(context.Background()) })
		_, err = headers(s)
		return err
	}
	if err := offline(dir, nil); err == nil || !strings.Contains(err.Error(), "--offline") || !strings.Contains(err.Error(), "release of torch") {
		t.Errorf("error %v, expected it to name --offline and what is missing", err)
	}
	if _, err := headers(x.open(t, dir, lock)); err != nil {
		t.Fatal(err)
	}
	x.Close()
	if err := offline(dir, lock); err != nil {
		t.Errorf("offline, fetched before: %v", err)
	}
	if err := offline(t.TempDir(), lock); err == nil || !strings.Contains(err.Error(), "--offline") || !strings.Contains(err.Error(), "find torch-2.13.") {
		t.Errorf("error %v, expected it to name --offline and what is missing", err)
	}
}

const childVar = "THOXBUILD_TEST_CHILD_INDEX"

// TestChildFetch is the other process of the tests below.
func TestChildFetch(t *testing.T) {
	index := os.Getenv(childVar)
	if index == "" {
		t.Skip("only runs as a child of other tests")
	}
	s, err := Open(Options{Dir: os.Getenv("THOXBUILD_TEST_CHILD_DIR"), IndexURL: index})
	if err == nil {
		_, err = headers(s)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func child(t *testing.T, x *testIndex, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChildFetch$")
	cmd.Env = append(os.Environ(), childVar+"="+x.URL, "THOXBUILD_TEST_CHILD_DIR="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestTwoProcessesShareOneFetch(t *testing.T) {
	alone := newTestIndex(t, torchWheel(t, false))
	if _, err := headers(alone.open(t, t.TempDir(), nil)); err != nil {
		t.Fatal(err)
	}
	x, dir := newTestIndex(t, torchWheel(t, false)), t.TempDir()
	a, b := child(t, x, dir), child(t, x, dir)
	if err := errors.Join(a.Wait(), b.Wait()); err != nil {
		t.Fatal(err)
	}
	if got, want := x.fileHits.Load(), alone.fileHits.Load(); got != want {
		t.Errorf("two processes asked for the wheel %d times, one alone %d times", got, want)
	}
}

func TestKilledFetchIsRepeated(t *testing.T) {
	x, dir := newTestIndex(t, torchWheel(t, false)), t.TempDir()
	for range 6 {
		before := x.fileHits.Load()
		cmd := child(t, x, dir)
		for i := 0; x.fileHits.Load() == before && i < 2000; i++ {
			time.Sleep(time.Millisecond)
		}
		cmd.Process.Kill() // SIGKILL
		cmd.Wait()
		if fi, err := os.ReadDir(filepath.Join(dir, "tools")); err == nil && len(fi) > 0 {
			break // it was faster than the signal; the check below holds all the same
		}
	}
	s := x.open(t, dir, nil)
	got, err := headers(s)
	if err != nil {
		t.Fatal(err)
	}
	if found, _ := filepath.Glob(filepath.Join(s.Real(got+"/"), "include", "ATen", "h*.h")); len(found) != 20 {
		t.Errorf("%d headers after the kill, expected 20", len(found))
	}
}

func TestArchivesStayInTheirFolder(t *testing.T) {
	for _, name := range []string{"../evil.h", "/evil.h", "a/../../evil.h"} {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		w, _ := z.Create(name)
		w.Write([]byte("x"))
		z.Close()
		x := newTestIndex(t, b.Bytes())
		root := t.TempDir()
		s := x.open(t, filepath.Join(root, "store"), nil)
		if _, err := whole(s); err == nil {
			t.Errorf("%q was unpacked", name)
		}
		filepath.WalkDir(root, func(p string, _ os.DirEntry, _ error) error {
			if filepath.Base(p) == "evil.h" {
				t.Errorf("%q was written to %s", name, p)
			}
			return nil
		})
	}
}

func TestCredentialsAreNotPrinted(t *testing.T) {
	x := newTestIndex(t, torchWheel(t, false))
	x.busy.Store(1000)
	s, err := Open(Options{Dir: t.TempDir(), IndexURL: strings.Replace(x.URL, "http://", "http://me:hunter2@", 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	if _, err := headers(s); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v: expected one without the password", err)
	}
}
