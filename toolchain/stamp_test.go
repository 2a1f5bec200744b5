package toolchain

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fakeClang puts a program of coreutils in clang's place: each says of itself
// what it is.
func fakeClang(t *testing.T, name, program string) string {
	t.Helper()
	b, err := os.ReadFile(program)
	if err != nil {
		t.Skip(err)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	os.Remove(name)
	if err := os.WriteFile(name, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// clang is asked for its version once, until it or one of its libraries is
// another file, however alike the two look.
func TestClangVersionIsRemembered(t *testing.T) {
	dir := t.TempDir()
	version := func(program string, later time.Duration) string {
		t.Helper()
		s, err := Open(Options{Dir: filepath.Join(dir, "store")})
		if err != nil {
			t.Fatal(err)
		}
		s.now = func() time.Time { return time.Now().Add(later) }
		v, err := s.clangVersion(t.Context(), program)
		if err != nil {
			t.Fatal(err)
		}
		return string(v)
	}
	memo := filepath.Join(dir, "store", "locks", "clang-version.json")
	// poison makes what is remembered tell itself from what clang would say.
	poison := func() {
		t.Helper()
		b, err := os.ReadFile(memo)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(memo, []byte(strings.Replace(string(b), `"entry":"`, `"entry":"remembered `, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(got, want string) {
		t.Helper()
		if !strings.HasPrefix(got, want) {
			t.Errorf("clang says %q, want %q", got, want)
		}
	}

	clang := fakeClang(t, filepath.Join(dir, "bin", "clang-19"), "/bin/echo")
	expect(version(clang, 0), "echo ")
	if _, err := os.Stat(memo); err == nil {
		t.Error("the version of a program that was written a moment ago is remembered")
	}
	expect(version(clang, time.Minute), "echo ")
	poison()
	expect(version(clang, time.Minute), "remembered echo ")

	// Another program with the old times.
	fi, err := os.Stat(clang)
	if err != nil {
		t.Fatal(err)
	}
	fakeClang(t, clang, "/bin/true")
	if err := os.Chtimes(clang, fi.ModTime(), fi.ModTime()); err != nil {
		t.Fatal(err)
	}
	expect(version(clang, time.Minute), "true ")
	poison()
	expect(version(clang, time.Minute), "remembered true ")

	// Another library beside the same program.
	lib := filepath.Join(dir, "lib", "libclang-cpp.so.19.1")
	if err := os.MkdirAll(filepath.Dir(lib), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(lib, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	expect(version(clang, time.Minute), "true ")

	// A damaged memo is as good as none, and is written again.
	if err := os.WriteFile(memo, []byte(`{"stamp":"`), 0o644); err != nil {
		t.Fatal(err)
	}
	expect(version(clang, time.Minute), "true ")
	poison()
	expect(version(clang, time.Minute), "remembered true ")

	// A script or a program of another name may run anything.
	script := filepath.Join(dir, "script", "clang-19")
	if err := os.MkdirAll(filepath.Dir(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec "+clang+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link", "clang-19")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(fakeClang(t, filepath.Join(dir, "ccache"), "/bin/true"), link); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{script, link} {
		if s := clangStamp(program); s.text != "" {
			t.Errorf("%s has a stamp", program)
		}
		expect(version(program, time.Minute), "true ")
		expect(version(program, time.Minute), "true ")
	}
}
