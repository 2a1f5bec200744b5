package publish

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/hub/bundle"
	"github.com/thox-ai/thoxbuild/manifests"
)

// Prepare reads and hashes the bundle that the options name and passes it
// through every gate. It reaches no network, so it serves publishers to other
// places too. What the gates refuse is an error that holds bundle.Problems.
func Prepare(ctx context.Context, o Options) (*bundle.Bundle, error) {
	b, err := bundle.Read(ctx, o.Dir, bundle.Options{Variants: o.Variants, Parallel: o.Parallel, Card: o.Card, Benchmarks: o.Benchmarks, NoGitIDs: o.Registry})
	if err != nil {
		return nil, err
	}
	return b, checkBundle(ctx, b, o)
}

// checkBundle runs this package's gates and then the caller's. It lists
// everything that is wrong.
func checkBundle(ctx context.Context, b *bundle.Bundle, o Options) error {
	var problems bundle.Problems
	problems = append(problems, oneVersion(b)...)
	problems = append(problems, freshDigests(b)...)
	if !o.AllowDirty {
		problems = append(problems, cleanProvenance(b)...)
	}
	if missing := missingVariants(b, o.Required); len(missing) > 0 && !o.Partial {
		problems = append(problems, fmt.Sprintf("%d required variants are missing: %s; build them or pass --partial", len(missing), strings.Join(missing, ", ")))
	}
	for _, gate := range o.Gates {
		if err := gate(ctx, b); err != nil {
			problems = append(problems, err.Error())
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if len(problems) > 0 {
		return fmt.Errorf("nothing was published: %w", problems)
	}
	return nil
}

// oneVersion refuses a mix: the branch is named after the version.
func oneVersion(b *bundle.Bundle) []string {
	first := b.Variants[0]
	var out []string
	for _, v := range b.Variants[1:] {
		if v.Metadata.Version != first.Metadata.Version {
			out = append(out, fmt.Sprintf("variant %s has version %d, but %s has %d; build both from the same build.toml", v.Name, v.Metadata.Version, first.Name, first.Metadata.Version))
		}
		if v.Metadata.Name != first.Metadata.Name {
			out = append(out, fmt.Sprintf("variant %s is of kernel %q, but %s is of %q", v.Name, v.Metadata.Name, first.Name, first.Metadata.Name))
		}
	}
	return out
}

// freshDigests refuses files that changed after the build hashed them.
func freshDigests(b *bundle.Bundle) []string {
	var out []string
	for _, v := range b.Variants {
		diffs, err := v.Stale()
		if err != nil {
			out = append(out, fmt.Sprintf("%v; build it again, or add the digest with kernel-builder's hash command", err))
			continue
		}
		for _, d := range diffs {
			out = append(out, fmt.Sprintf("variant %s: %s: the build is not what its digest says; build it again", v.Name, d))
		}
	}
	return out
}

// cleanProvenance wants a commit that holds the sources of every variant.
func cleanProvenance(b *bundle.Bundle) []string {
	var out []string
	for _, v := range b.Variants {
		p := v.Metadata.Provenance
		switch {
		case p == nil || p.Kernel == nil:
			out = append(out, fmt.Sprintf("variant %s does not say from which commit it was built; build it in a git checkout or pass --allow-dirty", v.Name))
		case p.Kernel.Dirty:
			out = append(out, fmt.Sprintf("variant %s was built from uncommitted changes on top of %.12s; commit and build again, or pass --allow-dirty", v.Name, p.Kernel.SHA))
		}
	}
	return out
}

// missingVariants lists the required names without a built variant. A noarch
// kernel is complete with any one noarch variant, as upstream has it.
func missingVariants(b *bundle.Bundle, required []string) []string {
	var missing []string
	for _, r := range required {
		if !slices.ContainsFunc(b.Variants, func(v *bundle.Variant) bool {
			ok, err := path.Match(r, v.Name)
			return err == nil && ok
		}) {
			missing = append(missing, r)
		}
	}
	if !slices.ContainsFunc(b.Variants, func(v *bundle.Variant) bool { return v.Parsed.Framework != manifests.TorchNoarch }) {
		return nil
	}
	return missing
}
