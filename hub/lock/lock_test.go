package lock

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/internal/memhub"
)

func sampleFile() *File {
	d := Digest("sha256:" + strings.Repeat("a", 64))
	return &File{Kernels: []Kernel{
		{Repo: "thox-ai/b", Type: client.Kernel, Branch: "v2", Revision: strings.Repeat("1", 40), Variants: map[string]Digest{"torch-cpu": d, "torch-cuda": d}},
		{Repo: "oci://127.0.0.1:5000/k", Branch: "2", Revision: "sha256:" + strings.Repeat("2", 64), Published: "2026-11-30T00:00:00Z", Variants: map[string]Digest{"torch-cpu": d}},
		{Repo: "thox-ai/b", Type: client.Kernel, Branch: "v1", Revision: strings.Repeat("3", 40)},
	}}
}

func TestPrintParse(t *testing.T) {
	b, err := sampleFile().Print()
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	again, err := f.Print()
	if err != nil || string(again) != string(b) {
		t.Errorf("printed differently:\n%s\n%s\n%v", b, again, err)
	}
}

func TestParseRefuses(t *testing.T) {
	good, err := sampleFile().Print()
	if err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(string) string{
		"short revision":  func(s string) string { return strings.Replace(s, strings.Repeat("1", 40), "1111111", 1) },
		"short digest":    func(s string) string { return strings.Replace(s, strings.Repeat("a", 64), "abc", 1) },
		"unknown key":     func(s string) string { return strings.Replace(s, `"branch"`, `"brunch"`, 1) },
		"unknown variant": func(s string) string { return strings.Replace(s, "torch-cuda", "torch-cude", 1) },
		"future version":  func(s string) string { return strings.Replace(s, `"version": 1`, `"version": 2`, 1) },
		"trailing data":   func(s string) string { return s + "{}" },
		"unsorted":        func(s string) string { return strings.Replace(s, `"branch": "v1"`, `"branch": "v3"`, 1) },
		"cut":             func(s string) string { return s[:len(s)/2] },
	} {
		if _, err := Parse([]byte(edit(string(good)))); err == nil || errors.Is(err, ErrEdited) {
			t.Errorf("%s: %v", name, err)
		}
	}
	edited := strings.Replace(string(good), strings.Repeat("1", 40), strings.Repeat("4", 40), 1)
	f, err := Parse([]byte(edited))
	if !errors.Is(err, ErrEdited) || f == nil {
		t.Errorf("an edit: %v", err)
	}
}

// The digest is what the shell computes.
func TestVariantDigestIsShellCheckable(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"metadata.json": "{}", "a/b.py": "x", "z": "", "metadata.json.sigstore": "s", "c.pyc": "y"}
	for p, c := range files {
		p = filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(c), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", "-c", `find . -type f ! -name '*.pyc' ! -name metadata.json.sigstore -printf '%P\n' | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-64`)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("needs find, xargs and sha256sum: %v", err)
	}
	hexes := map[string]string{}
	for p, c := range files {
		hexes[p] = sumHex(c)
	}
	if got, want := string(VariantDigest(hexes)), "sha256:"+strings.TrimSpace(string(out)); got != want {
		t.Errorf("%s, the shell says %s", got, want)
	}
}

// Updates at once lose nothing, and an update that changes nothing does not
// touch the file.
func TestUpdate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", FileName)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			err := Update(t.Context(), path, func(f *File) error {
				f.Set(Kernel{Repo: "thox-ai/k", Type: client.Kernel, Branch: "v" + string(rune('0'+i)), Revision: strings.Repeat("1", 40)}, nil)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	f, err := Load(path)
	if err != nil || len(f.Kernels) != 8 {
		t.Fatalf("%d entries, %v", len(f.Kernels), err)
	}
	before, _ := os.Stat(path)
	if err := Update(t.Context(), path, func(*File) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.Stat(path); !os.SameFile(before, after) {
		t.Error("the file was written though nothing changed")
	}
}

// A lock that is a device stays one: nothing is put in its place.
func TestUpdateRefusesADevice(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	if err := os.Symlink(os.DevNull, path); err != nil {
		t.Fatal(err)
	}
	err := Update(t.Context(), path, func(f *File) error {
		f.Set(Kernel{Repo: "a/b", Revision: strings.Repeat("0", 40)}, func(string) bool { return false })
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "expected a regular file") {
		t.Errorf("%v", err)
	}
	if _, err := Load(path); err == nil {
		t.Error("it was read as an empty lock")
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left %v", left)
	}
}

func TestPublishTime(t *testing.T) {
	for in, want := range map[string]string{"": "", "0": "1970-01-01T00:00:00Z", "x": "error", "-1": "error"} {
		got, err := PublishTime(func(string) string { return in })
		if (err != nil) != (want == "error") || err == nil && got != want {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}

func TestPyProject(t *testing.T) {
	deps, err := PyProject([]byte("[tool.kernels.dependencies]\n\"b/k\" = 2\n\"a/k\" = 1\n"))
	if err != nil || len(deps) != 2 || deps[0].String() != "a/k v1" || deps[1].String() != "b/k v2" {
		t.Errorf("%v, %v", deps, err)
	}
	for _, bad := range []string{"", "[tool.kernels]\n", "[tool.kernels.dependencies]\nk = 1\n", "[tool.kernels.dependencies]\n\"a/k\" = \">=1\"\n", "[tool.kernels.dependencies]\n\"a/k\" = -1\n", "["} {
		if _, err := PyProject([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// Resolving follows the kernels that variants depend on and shows a circle.
func TestResolve(t *testing.T) {
	h := memhub.New()
	put := func(repo, branch, deps string) string {
		return h.Put("kernels/thox-ai/"+repo, branch, func(f map[string]memhub.File) {
			f["build/torch-cpu/metadata.json"] = memhub.File{Data: []byte(`{"name":"kk","id":"_k","version":1,"license":"MIT","python-depends":[],"kernel-depends":[` + deps + `],"backend":{"type":"cpu"}}`)}
			f["build/torch-cpu/__init__.py"] = memhub.File{Data: []byte("x")}
			f["build/torch-cpu/big.so"] = memhub.File{Data: []byte("big"), LFS: true}
		}).ID
	}
	c1 := put("a", "v1", `{"repo-id":"thox-ai/b","version":2},{"repo-id":"thox-ai/c","revision":"main"}`)
	c2 := put("b", "v2", `{"repo-id":"thox-ai/c","revision":"main"}`)
	c3 := put("c", "main", "")
	s := httptest.NewServer(h)
	defer s.Close()
	c, err := client.New(client.Config{Endpoint: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	deps, err := PyProject([]byte("[tool.kernels.dependencies]\n\"thox-ai/a\" = 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := Resolve(t.Context(), c, deps)
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, r := range got {
		text = append(text, r.Dependency.String()+" "+r.Commit)
	}
	if d := cmp.Diff([]string{"thox-ai/a v1 " + c1, "thox-ai/b v2 " + c2, "thox-ai/c @main " + c3}, text); d != "" {
		t.Error(d)
	}
	if _, err := Parse(mustPrint(t, &File{Kernels: []Kernel{got[0].Kernel()}})); err != nil {
		t.Error(err)
	}
	want := VariantDigest(map[string]string{
		"metadata.json": sumHex(string(h.Head("kernels/thox-ai/c", "main").Files["build/torch-cpu/metadata.json"].Data)),
		"__init__.py":   sumHex("x"), "big.so": sumHex("big"),
	})
	if got[2].Variants["torch-cpu"] != want {
		t.Errorf("pinned as %s, want %s", got[2].Variants["torch-cpu"], want)
	}

	put("b", "v2", `{"repo-id":"thox-ai/a","version":1}`)
	if _, err := Resolve(t.Context(), c, deps); err == nil || !strings.Contains(err.Error(), "thox-ai/a v1 -> thox-ai/b v2 -> thox-ai/a v1") {
		t.Errorf("a circle: %v", err)
	}
	nine := 9
	deps[0].Version = &nine
	if _, err := Resolve(t.Context(), c, deps); err == nil || !strings.Contains(err.Error(), "no version 9; it has 1") {
		t.Errorf("a missing version: %v", err)
	}
}

func mustPrint(t *testing.T, f *File) []byte {
	t.Helper()
	b, err := f.Print()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// FuzzParse holds Parse to printing back what it accepts.
func FuzzParse(f *testing.F) {
	b, err := sampleFile().Print()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"version":1,"kernels":[],"checksum":""}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		file, err := Parse(in)
		if err != nil {
			return
		}
		out, err := file.Print()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(out)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if d := cmp.Diff(file, again); d != "" {
			t.Error(d)
		}
	})
}

func sumHex(s string) string {
	b := sha256.Sum256([]byte(s))
	return hex.EncodeToString(b[:])
}
