package toolchain

import (
	"archive/zip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// unzip writes the files of an archive that pick renames, and skips those for
// which it returns "". Every path is confined to dir, and no link is made.
func unzip(files []*zip.File, dir string, pick func(name string) string) error {
	for _, f := range files {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		name := pick(f.Name)
		if name == "" {
			continue
		}
		if !filepath.IsLocal(filepath.FromSlash(name)) || !filepath.IsLocal(filepath.FromSlash(f.Name)) {
			return fmt.Errorf("archive member %q leaves its folder", f.Name)
		}
		if !f.Mode().IsRegular() {
			return fmt.Errorf("archive member %q is no plain file", f.Name)
		}
		if err := unzipFile(f, filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			return fmt.Errorf("archive member %q: %w", f.Name, err)
		}
	}
	return nil
}

func unzipFile(f *zip.File, to string) error {
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644|f.Mode().Perm()&0o111)
	if err != nil {
		return err
	}
	// The reader checks size and CRC at the end of the member.
	if _, err := io.Copy(w, r); err != nil {
		w.Close()
		return err
	}
	return w.Close()
}
