package toolchain

import (
	"context"
	"embed"
	"io/fs"
	"os"
	"path/filepath"
)

// overlayFiles are the headers that stand in front of all others.
//
//go:embed overlay
var overlayFiles embed.FS

// overlay writes the overlay headers into the store.
func (s *Store) overlay(ctx context.Context) (string, error) {
	var parts []string
	files := map[string][]byte{}
	err := fs.WalkDir(overlayFiles, "overlay", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := overlayFiles.ReadFile(p)
		files[p] = b
		parts = append(parts, p, string(b))
		return err
	})
	if err != nil {
		return "", err
	}
	return s.entry(ctx, "overlay-"+fingerprint(parts...), func(dir string) error {
		for p, b := range files {
			to := filepath.Join(dir, filepath.FromSlash(p[len("overlay/"):]))
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(to, b, 0o644); err != nil {
				return err
			}
		}
		return nil
	})
}
