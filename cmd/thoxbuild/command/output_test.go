//go:build unix

package command

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// An answer never takes the place of what is no regular file, and a link to a
// file stays one.
func TestCreate(t *testing.T) {
	dir := t.TempDir()
	s := &Streams{Out: io.Discard}
	write := func(name string) error {
		f, err := s.create(name)
		if err != nil {
			return err
		}
		defer f.close()
		if _, err := io.WriteString(f, "answer"); err != nil {
			return err
		}
		return f.finish()
	}

	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	got := make(chan string)
	go func() {
		b, _ := os.ReadFile(pipe)
		got <- string(b)
	}()
	if err := write(pipe); err != nil {
		t.Fatal(err)
	}
	if text := <-got; text != "answer" {
		t.Errorf("the pipe's reader got %q", text)
	}
	if fi, err := os.Lstat(pipe); err != nil || fi.Mode().Type() != os.ModeNamedPipe {
		t.Errorf("the pipe is %v now, %v", fi.Mode(), err)
	}

	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	if f, err := s.create(link); err != nil {
		t.Error(err)
	} else {
		io.WriteString(f, "half")
		f.close()
	}
	if b, _ := os.ReadFile(file); string(b) != "old" {
		t.Errorf("an answer that was not finished is there: %q", b)
	}
	if err := write(link); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(file); string(b) != "answer" {
		t.Errorf("the linked file holds %q", b)
	}
	if to, err := os.Readlink(link); to != "file" {
		t.Errorf("the link is %q now, %v", to, err)
	}
	if err := write(dir); err == nil {
		t.Error("a folder was written")
	}
}
