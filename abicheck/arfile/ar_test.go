package arfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/thox-ai/thoxbuild/abicheck/arfile"
)

func member(name string, data string) string {
	s := fmt.Sprintf("%-16s%-12d%-6d%-6d%-8d%-10d`\n%s", name, 0, 0, 0, 644, len(data), data)
	if len(data)%2 == 1 {
		s += "\n"
	}
	return s
}

func list(t *testing.T, b []byte) (map[string]string, error) {
	t.Helper()
	members, err := arfile.Members(bytes.NewReader(b), int64(len(b)))
	got := map[string]string{}
	for _, m := range members {
		data := make([]byte, m.Size)
		if _, err := io.ReadFull(io.NewSectionReader(bytes.NewReader(b), m.Off, m.Size), data); err != nil {
			t.Fatal(err)
		}
		got[m.Name] = string(data)
	}
	return got, err
}

func TestMembers(t *testing.T) {
	tests := []struct {
		name, ar string
		want     map[string]string
		fails    bool
	}{
		{"gnu", arfile.Magic + member("/", "symbols") + member("//", "a_very_long_name.o/\n") + member("a.o/", "odd") + member("/0", "even"), map[string]string{"a.o": "odd", "a_very_long_name.o": "even"}, false},
		{"bsd", arfile.Magic + member("#1/20", "__.SYMDEF\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00table") + member("#1/8", "name.o\x00\x00data"), map[string]string{"name.o": "data"}, false},
		{"empty", arfile.Magic, map[string]string{}, false},
		{"size past the end", arfile.Magic + member("a.o/", "data")[:62], map[string]string{}, true},
		{"long name outside the table", arfile.Magic + member("/7", "x"), map[string]string{}, true},
		{"no header", arfile.Magic + string(make([]byte, 80)), map[string]string{}, true},
		{"not an archive", "hello, world", map[string]string{}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := list(t, []byte(tt.ar))
			if (err != nil) != tt.fails {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("members (-want +got)\n%s", diff)
			}
		})
	}
	if _, err := list(t, []byte(arfile.ThinMagic)); !errors.Is(err, arfile.ErrThin) {
		t.Errorf("thin archive: %v", err)
	}
}

// TestAgainstAr reads what the real ar writes.
func TestAgainstAr(t *testing.T) {
	ar, err := exec.LookPath("ar")
	if err != nil {
		t.Skip("ar is not installed")
	}
	dir := t.TempDir()
	want := map[string]string{"short.o": "one", "a_name_of_more_than_fifteen_bytes.o": "three", "even.o": "four"}
	args := []string{"rcD", "x.a"}
	for name, data := range want {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, name)
	}
	cmd := exec.Command(ar, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "x.a"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := list(t, b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("members (-want +got)\n%s", diff)
	}
}

// FuzzAr holds that members lie in the file and do not overlap.
func FuzzAr(f *testing.F) {
	f.Add([]byte(arfile.Magic + member("//", "a_very_long_name.o/\n") + member("a.o/", "odd") + member("/0", "even")))
	f.Add([]byte(arfile.Magic + member("#1/8", "name.o\x00\x00data")))
	f.Fuzz(func(t *testing.T, data []byte) {
		members, _ := arfile.Members(bytes.NewReader(data), int64(len(data)))
		end := int64(0)
		for _, m := range members {
			if m.Off < end || m.Size < 0 || m.Off+m.Size > int64(len(data)) {
				t.Fatalf("member %q at %d of %d bytes; the file has %d, the one before ends at %d", m.Name, m.Off, m.Size, len(data), end)
			}
			end = m.Off + m.Size
		}
	})
}
