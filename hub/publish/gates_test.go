package publish

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/hub/bundle"
	"github.com/thox-ai/thoxbuild/hub/internal/memhub"
	"github.com/thox-ai/thoxbuild/manifests"
)

func TestGatesListEverythingAndWriteNothing(t *testing.T) {
	dir := t.TempDir()
	writeVariant(t, dir, variantA, 1, sample("a"), nil)
	writeVariant(t, dir, variantB, 2, sample("b"), func(m *manifests.Metadata) { m.Provenance.Kernel.Dirty = true })
	if err := os.WriteFile(filepath.Join(dir, "build", variantA, "_ops.py"), []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := memhub.New()
	o := options(t, serve(t, h), dir)
	o.Required = []string{variantA, "torch213-metal-aarch64-darwin"}
	o.Gates = []Gate{func(context.Context, *bundle.Bundle) error { return errors.New("GLIBC_2.34 in _demo.abi3.so") }}
	_, err := Run(t.Context(), o)
	if err == nil {
		t.Fatal("published")
	}
	for _, want := range []string{"has version 1", "uncommitted", "_ops.py", "torch213-metal-aarch64-darwin", "GLIBC_2.34"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	if len(h.Repos) != 0 {
		t.Error("something was written")
	}
}

func TestBadBundles(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "id_rsa")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		spoil func(dir string) error
		want  string
	}{
		"no metadata": {func(d string) error { return os.Remove(filepath.Join(d, "build", variantA, "metadata.json")) }, "no metadata.json"},
		"link out":    {func(d string) error { return os.Symlink(secret, filepath.Join(d, "build", variantA, "x.txt")) }, "leaves the variant"},
		"bad name": {func(d string) error {
			return os.Rename(filepath.Join(d, "build", variantB), filepath.Join(d, "build", "torch2-cpu"))
		}, "torch2-cpu"},
		"no name key": {func(d string) error {
			return os.WriteFile(filepath.Join(d, "build", variantA, "metadata.json"), []byte(`{"version":1}`), 0o644)
		}, "name"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeVariant(t, dir, variantA, 1, sample("a"), nil)
			writeVariant(t, dir, variantB, 1, sample("b"), nil)
			if err := tc.spoil(dir); err != nil {
				t.Fatal(err)
			}
			h := memhub.New()
			_, err := Run(t.Context(), options(t, serve(t, h), dir))
			if err == nil || !strings.Contains(err.Error(), tc.want) || len(h.Repos) != 0 {
				t.Errorf("error %v, repos %d", err, len(h.Repos))
			}
		})
	}
}

func TestIgnoredFileIsRefused(t *testing.T) {
	h := memhub.New()
	h.Ignore = ".so"
	dir := t.TempDir()
	writeVariant(t, dir, variantA, 1, sample("a"), nil)
	_, err := Run(t.Context(), options(t, serve(t, h), dir))
	if err == nil || !strings.Contains(err.Error(), ".gitignore") || h.Head(repoKey, "v1") != nil {
		t.Errorf("%v", err)
	}
}
