package toolchain

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/manifests"
)

// Members of every size come out whole, whatever order the workers take, and
// one that RECORD knows otherwise ends the unpacking.
func TestUnzipChecksEveryMember(t *testing.T) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	want, record := map[string]string{}, map[string]string{}
	for i := range 300 {
		name := fmt.Sprintf("p/%d/%d.h", i%7, i)
		text := strings.Repeat(fmt.Sprintf("line %d\n", i), i*i)
		if i == 150 {
			text = strings.Repeat("large\n", 2<<20) // one that is taken first
		}
		method := zip.Deflate
		if i%5 == 0 {
			method = zip.Store
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(text))
		want[name], record[name] = text, base64.RawURLEncoding.EncodeToString(sum[:])
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	open := func() *zip.Reader {
		r, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	dir := t.TempDir()
	pick := func(name string) string { return name }
	n, err := (&unpacking{dir: dir, pick: pick, record: record}).unzip(context.Background(), open())
	if err != nil || n != len(want) {
		t.Fatalf("%d of %d members, %v", n, len(want), err)
	}
	for name, text := range want {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != text {
			t.Errorf("%s: %d bytes, expected %d (%v)", name, len(got), len(text), err)
		}
	}
	for name, change := range map[string]func(){
		"another digest": func() { record["p/3/297.h"] = record["p/0/0.h"] },
		"not listed":     func() { delete(record, "p/3/297.h") },
	} {
		change()
		_, err := (&unpacking{dir: t.TempDir(), pick: pick, record: record}).unzip(context.Background(), open())
		if err == nil || !strings.Contains(err.Error(), "p/3/297.h does not match") {
			t.Errorf("%s: error %v, expected the member's name", name, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := (&unpacking{dir: t.TempDir(), pick: pick}).unzip(ctx, open()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestZigMembers(t *testing.T) {
	for name, want := range map[string]string{
		"ziglang/zig":                                         "zig",
		"ziglang/lib/include/immintrin.h":                     "lib/include/immintrin.h",
		"ziglang/lib/std/std.zig":                             "lib/std/std.zig",
		"ziglang/lib/libc/glibc/abilists":                     "lib/libc/glibc/abilists",
		"ziglang/lib/libc/include/generic-glibc/stdio.h":      "lib/libc/include/generic-glibc/stdio.h",
		"ziglang/lib/libc/include/x86-linux-gnu/bits/wchar.h": "lib/libc/include/x86-linux-gnu/bits/wchar.h",
		"ziglang/lib/libc/include/any-windows-any/windows.h":  "",
		"ziglang/lib/libc/include/x86_64-linux-musl/a.h":      "",
		"ziglang/lib/libc/musl/libc.S":                        "",
		"ziglang/lib/docs/main.js":                            "",
		"ziglang/__init__.py":                                 "",
		"ziglang-0.17.1.dist-info/RECORD":                     "",
	} {
		if got := zigMember(name); got != want {
			t.Errorf("%s: %q, expected %q", name, got, want)
		}
	}
	// What clang for CUDA 12.6 and the installed compilers are pointed at.
	for _, arch := range []manifests.Arch{manifests.X86_64, manifests.AArch64} {
		for _, d := range zigLibcIncludes(arch) {
			if zigMember("ziglang/lib/libc/include/"+d+"/a.h") == "" {
				t.Errorf("%s is not unpacked", d)
			}
		}
	}
}

// A download that a power cut left torn has its final name and size.
func TestTornDownloadIsFetchedAgain(t *testing.T) {
	x := newTestIndex(t, torchWheel(t, false))
	s := x.open(t, t.TempDir(), nil)
	d := Dist{File: torchFile, URL: x.URL + "/files/" + torchFile, SHA256: x.hash, Size: int64(len(x.wheel))}
	path, err := s.download(context.Background(), d)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, len(x.wheel)), 0o644); err != nil {
		t.Fatal(err)
	}
	if path, err = s.download(context.Background(), d); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, x.wheel) {
		t.Errorf("the torn bytes are still there (%v)", err)
	}
	hits := x.fileHits.Load()
	if _, err = s.download(context.Background(), d); err != nil || x.fileHits.Load() != hits {
		t.Errorf("a whole download is fetched again: %v", err)
	}
}
