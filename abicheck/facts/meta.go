package facts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
	"github.com/thox-ai/thoxbuild/manifests"
)

var metaPass = rule.Pass{
	Name: "meta",
	Run:  checkMeta,
	Rules: []rule.Info{{
		ID: "META", Severity: rule.Error,
		Title: "metadata.json and the folder do not agree",
		Explain: `A variant folder is named after what it is built for; metadata.json inside says it
again, names the extension module, and holds a digest of every file. The loader
believes all three. A file that was changed after the digest was made, a module
under another name than the id, or a backend that the folder's name does not
have, shows here.

Build the variant again rather than editing what is inside.`,
	}},
}

func checkMeta(ctx context.Context, s *rule.Subject, _ *rule.Options) ([]rule.Finding, error) {
	if s.Dir == "" {
		return nil, nil
	}
	c := collect(s)
	const rebuild = "build the variant again"
	meta, err := manifests.VerifyVariant(ctx, s.Dir)
	var diffs *manifests.DigestError
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &diffs):
		for _, d := range diffs.Diffs {
			c.add("META", rule.Error, "the digest does not fit: "+d.String(), rebuild)
		}
	case errors.Is(err, manifests.ErrNoDigest):
		c.add("META", rule.Note, "metadata.json has no digest, so changes cannot be seen", "thoxbuild build writes one")
	case err != nil:
		c.add("META", rule.Error, err.Error(), "write metadata.json as kernel-builder does")
	}
	if meta == nil && s.Package != nil {
		meta = s.Package.Metadata
	}
	if meta == nil {
		return c.done(), nil
	}
	name, err := manifests.ParseVariantName(filepath.Base(s.Dir))
	if err != nil {
		return c.done(), nil // a copy under another name; the loader has its own way to it
	}
	if b := name.Compute.Backend; b != "" && b != meta.Backend.Type {
		c.add("META", rule.Error, fmt.Sprintf("metadata.json says backend %s; the folder's name says %s", meta.Backend.Type, b), rebuild)
	}
	if name.Framework != manifests.TorchNoarch {
		if err := hasModule(s.Dir, meta.ID, name); err != nil {
			c.add("META", rule.Error, err.Error(), rebuild)
		}
	}
	return c.done(), nil
}

// hasModule looks for the extension module that metadata.json names.
func hasModule(dir, id string, name manifests.VariantName) error {
	suffixes := []string{".abi3.so", ".pyd"}
	if name.Framework == manifests.TVMFFI {
		suffixes = []string{".so", ".dylib", ".dll"}
	}
	for _, suffix := range suffixes {
		if _, err := os.Lstat(filepath.Join(dir, id+suffix)); err == nil {
			return nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fmt.Errorf("the id is %s, but there is no %s", id, strings.Join([]string{id + suffixes[0], id + suffixes[1]}, " or "))
}
