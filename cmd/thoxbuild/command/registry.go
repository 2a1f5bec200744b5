package command

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thox-ai/thoxbuild/hub/bundle"
	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/hub/oci"
	"github.com/thox-ai/thoxbuild/hub/publish"
	"github.com/thox-ai/thoxbuild/hub/sign"
	"github.com/thox-ai/thoxbuild/manifests"
)

// hubOnly refuses flags that mean nothing to a registry.
func hubOnly(c *cobra.Command, to string) error {
	for _, name := range []string{"repo", "repo-type", "endpoint", "branch", "message", "private", "create-pr", "keep-published", "parent", "card", "benchmarks"} {
		if c.Flags().Changed(name) {
			return usagef("--%s means nothing to a registry (%s)", name, to)
		}
	}
	return nil
}

// publishOCI pushes what has passed the gates to a registry and pins it.
func publishOCI(ctx context.Context, s *Streams, o publish.Options, to, mountFrom, provenanceDir string, inputs []sign.Input, lockPath, jsonPath string) error {
	target, err := oci.ParseTarget(to)
	if err != nil {
		return usageError{err}
	}
	if target.Digest != "" {
		return usagef("%s: publish to a tag, not to a digest", to)
	}
	published, err := lock.PublishTime(os.Getenv)
	if err != nil {
		return usageError{err}
	}
	o.Registry = true
	b, err := publish.Prepare(ctx, o)
	if err != nil {
		return gateError(err)
	}
	attached, err := attachments(ctx, b, inputs, provenanceDir)
	if err != nil {
		return err
	}
	res, err := oci.Push(ctx, oci.PushOptions{
		Access: oci.Access{Log: s.notef}, Target: target, Bundle: b, MountFrom: mountFrom, Attachments: attached, DryRun: o.DryRun,
	})
	if err != nil {
		return err
	}
	if !o.DryRun {
		entry := lock.Kernel{Repo: res.Repo, Branch: res.Tag, Revision: res.Revision, Published: published, Variants: res.Variants}
		err := lock.Update(ctx, lockPath, func(f *lock.File) error {
			f.Set(entry, func(name string) bool { return slices.Contains(res.Kept, name) })
			return nil
		})
		if err != nil {
			return withHint(fmt.Errorf("published %s, but the lock file was not written: %w", res.Revision, err),
				"mend %s and publish again: nothing will be sent twice", lockPath)
		}
	}
	if err := writeJSON(s, jsonPath, res); err != nil || jsonPath == "-" {
		return err
	}
	if o.DryRun {
		return printPush(s, b, res)
	}
	if res.Changed {
		s.notef("published %s:%s: %d of %d variants new, %s sent", res.Repo, res.Tag, len(res.Pushed), len(res.Variants), megabytes(res.Sent))
	} else {
		s.notef("%s:%s holds these variants already", res.Repo, res.Tag)
	}
	fmt.Fprintf(s.Out, "%s@%s\n", res.Repo, res.Revision)
	return nil
}

// printPush prints what a push would do.
func printPush(s *Streams, b *bundle.Bundle, res *oci.Result) error {
	fmt.Fprintf(s.Out, "to %s:%s, as %s\n", res.Repo, res.Tag, res.Revision)
	for _, v := range b.Variants {
		verb, size := "have", int64(0)
		if slices.Contains(res.Pushed, v.Name) {
			verb = "push"
		}
		for _, f := range v.Files {
			size += f.Size
		}
		fmt.Fprintf(s.Out, "%s %s  %d files, %s before compression\n", verb, v.Name, len(v.Files), megabytes(size))
	}
	for _, name := range res.Kept {
		fmt.Fprintf(s.Out, "keep %s\n", name)
	}
	return nil
}

// attachments are the documents about the variants that a registry keeps
// beside them: the abicheck report of each, how it was built, and its
// signature if it has one.
func attachments(ctx context.Context, b *bundle.Bundle, inputs []sign.Input, provenanceDir string) ([]oci.Attachment, error) {
	var out []oci.Attachment
	for _, v := range b.Variants {
		data, err := abiReport(ctx, b, v)
		if err != nil {
			return nil, err
		}
		out = append(out, oci.Attachment{Variant: v.Name, ArtifactType: oci.ABIReportType, Data: data})
		built, err := provenance(provenanceDir, v, inputs)
		if err != nil {
			return nil, err
		}
		out = append(out, built)
		sig, err := os.ReadFile(filepath.Join(v.Dir, manifests.SignatureFile))
		if err == nil {
			out = append(out, oci.Attachment{Variant: v.Name, ArtifactType: oci.SignatureType, Data: sig})
		} else if !os.IsNotExist(err) {
			return nil, err
		}
	}
	return out, nil
}

// registryTarget reads an oci:// argument. An address without tag and digest
// is what the lock pins for it.
func registryTarget(id, revision string) (oci.Target, error) {
	if strings.HasPrefix(revision, "sha256:") {
		id += "@" + revision
	}
	t, err := oci.ParseTarget(id)
	if err != nil {
		return t, usageError{err}
	}
	return t, nil
}

// registryRepo names a registry's repository as a Hub would, for the folder of
// a cache: by --as, else by the last two parts of its path.
func registryRepo(t oci.Target, as string) (client.Repo, error) {
	if as == "" {
		parts := strings.Split(t.Repo.RepositoryStr(), "/")
		as = strings.Join(parts[max(len(parts)-2, 0):], "/")
	}
	repo, err := client.ParseRepo(client.Kernel, as)
	if err != nil {
		return repo, withHint(usageError{err}, "name the kernel as NAMESPACE/NAME with --as")
	}
	return repo, nil
}
