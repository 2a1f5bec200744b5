package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/thox-ai/thoxbuild/hub/bundle"
	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/hub/oci"
	"github.com/thox-ai/thoxbuild/hub/publish"
	"github.com/thox-ai/thoxbuild/hub/source"
	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/matrix"
)

func newPublish(g *globals) *cobra.Command {
	var o publish.Options
	var kernel, lockFile, jsonPath, repoType, to, mountFrom, provenanceDir string
	c := &cobra.Command{
		Use:   "publish",
		Short: "Publish the built variants to a Hub or a registry and pin the revision",
		Long: `Publish checks the variants in build/, sends what the Hub does not have, and
commits them to branch v<version>. It prints the revision and records it, with
a digest of each variant, in thoxbuild.lock. Nothing is published when a check
finds an error, whatever flag is given.

The endpoint is HF_ENDPOINT, the token HF_TOKEN or huggingface_hub's file. With
--to oci://HOST/REPO[:TAG] the variants go to a registry, as an image index
under the tag (default v<version>), with the credentials of 'docker login'.

Exit status 3 means that a check refused the variants.`,
		Example: `  $ thoxbuild publish --repo thox-ai/thox-edge-ops
  $ thoxbuild publish --to oci://registry.example.org/thox-ai/thox-edge-ops
  $ thoxbuild publish --dry-run --partial`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx := c.Context()
			p, err := g.load()
			if err != nil {
				return err
			}
			k, err := oneKernel(p, kernel)
			if err != nil {
				return err
			}
			if o.Dir == "" {
				o.Dir = outDir(p, k, "")
			}
			if to == "" && o.Repo == "" && o.Endpoint == "" {
				to = p.Workspace.Publish.To
			}
			if len(o.Variants) == 0 {
				o.Variants = p.Workspace.Publish.Variants
			}
			registry := strings.HasPrefix(to, oci.Scheme)
			if to != "" && !registry {
				o.Endpoint = firstOf(o.Endpoint, to)
			}
			if o.Repo == "" && !registry {
				o.Repo = firstOf(p.Workspace.Publish.Repo, k.General.Hub.RepoID)
			}
			if o.Repo == "" && !registry {
				return withHint(usagef("no repository to publish to"), "give --repo NAMESPACE/NAME, or set [publish] repo in build.toml")
			}
			if o.RepoType, err = parseRepoType(repoType); err != nil {
				return err
			}
			if o.Required, err = requiredNames(p, k); err != nil {
				return err
			}
			if o.Card == "" {
				if err := renderCard(k, o.Repo, o.Dir); err != nil {
					return err
				}
			}
			o.Gates = append(o.Gates, abiGate(g.streams), signatureGate)
			o.Progress = publishProgress(g.streams)
			o.Log = g.streams.notef
			lockPath := firstOf(lockFile, filepath.Join(p.Workspace.Dir, lock.FileName))
			if err := lockWritable(lockPath, o.DryRun); err != nil {
				return err
			}
			if registry {
				if err := hubOnly(c, to); err != nil {
					return err
				}
				inputs, err := buildInputs(p, k)
				if err != nil {
					return err
				}
				return publishOCI(ctx, g.streams, o, to, mountFrom, provenanceDir, inputs, lockPath, jsonPath)
			}
			if mountFrom != "" || provenanceDir != "" {
				return usagef("--mount-from and --provenance are for registries only")
			}
			if o.Branch == "" {
				o.Branch = k.General.Hub.Branch
			}
			if o.Client, err = g.hubClient(ctx, o.Endpoint); err != nil {
				return err
			}
			res, err := publish.Run(ctx, o)
			if err != nil {
				return gateError(err)
			}
			return finishPublish(ctx, g.streams, o, res, lockPath, jsonPath)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Repo, "repo", "", "repository, `NAMESPACE/NAME`")
	f.StringVar(&to, "to", "", "oci://HOST/REPO[:TAG] of a registry, or a Hub's `ADDRESS` (default [publish] to)")
	f.StringVar(&mountFrom, "mount-from", "", "`REPO` of the same registry that may have the layers already")
	f.StringVar(&provenanceDir, "provenance", "", "`DIR` of signed provenance to attach in a registry (see 'thoxbuild sign')")
	f.StringVar(&repoType, "repo-type", "kernel", "kernel or model")
	f.StringVar(&o.Endpoint, "endpoint", "", "the Hub's address (default $HF_ENDPOINT)")
	f.StringVar(&o.Dir, "dir", "", "folder of the variants (default build/ beside build.toml)")
	f.StringVar(&kernel, "kernel", "", "which kernel of the workspace")
	f.StringSliceVar(&o.Variants, "variant", nil, "only variants whose names match `GLOB` (default [publish] variants, or all)")
	f.StringVar(&o.Branch, "branch", "", "branch to commit to (default v<version>)")
	f.StringVarP(&o.Message, "message", "m", "", "the commit's summary")
	f.BoolVar(&o.Private, "private", false, "make the repository private when it is created")
	f.BoolVar(&o.CreatePR, "create-pr", false, "open a pull request instead of committing")
	f.BoolVarP(&o.DryRun, "dry-run", "n", false, "print the exact plan and sizes, and change nothing")
	f.BoolVar(&o.Partial, "partial", false, "publish although required variants are missing; the commit says so")
	f.BoolVar(&o.AllowDirty, "allow-dirty", false, "publish what was built from uncommitted sources")
	f.BoolVar(&o.KeepPublished, "keep-published", false, "refuse to change a variant that is published already")
	f.StringVar(&o.ParentCommit, "parent", "", "the commit that the branch must be at")
	f.StringVar(&o.Card, "card", "", "`FILE` to publish as README.md on main (default CARD.md of the kernel)")
	f.StringVar(&o.Benchmarks, "benchmarks", "", "folder with benchmark*.py")
	f.StringVar(&lockFile, "lock", "", "where to pin the revision (default thoxbuild.lock beside build.toml)")
	f.StringVar(&jsonPath, "output-json", "", "write the result as JSON to `FILE`, - for stdout")
	return c
}

// finishPublish pins and prints what was published.
func finishPublish(ctx context.Context, s *Streams, o publish.Options, res *publish.Result, lockPath, jsonPath string) error {
	if o.DryRun {
		return res.Plan.Print(s.Out)
	}
	if res.Status != publish.PullRequestCreated {
		published, err := lock.PublishTime(os.Getenv)
		if err != nil {
			return usageError{err}
		}
		entry := res.Pin(o.RepoType, published)
		err = lock.Update(ctx, lockPath, func(f *lock.File) error {
			old, err := f.Find(entry.Repo, entry.Branch)
			if err != nil || len(filter(slices.Sorted(maps.Keys(old.Variants)), func(n string) bool { return entry.Variants[n] == "" })) == 0 {
				f.Set(entry, nil)
				return nil
			}
			// Pins of variants that this publish left alone stay, as long as
			// the new revision holds them.
			there, err := variantsAt(ctx, o.Client, o.RepoType, entry.Repo, entry.Revision)
			f.Set(entry, func(name string) bool { return there[name] })
			return err
		})
		if err != nil {
			return withHint(fmt.Errorf("published %s, but the lock file was not written: %w", res.Revision, err),
				"mend %s and publish again: nothing will be sent twice", lockPath)
		}
	}
	if err := writeJSON(s, jsonPath, res); err != nil || jsonPath == "-" {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(res.Variants)) {
		s.notef("%s %s", name, s.paint(faint, string(res.Variants[name])))
	}
	switch res.Status {
	case publish.NoChanges:
		s.notef("%s %s holds these variants already", res.Repo, res.Branch)
	case publish.PullRequestCreated:
		for _, pr := range res.PullRequests {
			fmt.Fprintln(s.Out, pr.URL)
		}
		return nil
	default:
		s.notef("published %s %s: %s sent, %s unchanged", res.Repo, res.Branch, megabytes(res.Sent), megabytes(res.Skipped))
	}
	fmt.Fprintf(s.Out, "%s@%s\n", res.Repo, res.Revision)
	return nil
}

// writeJSON writes a result to a file, to stdout for -, or nowhere.
func writeJSON(s *Streams, path string, v any) error {
	if path == "" {
		return nil
	}
	f, err := s.create(path)
	if err != nil {
		return err
	}
	defer f.close()
	if err := printJSON(f, v); err != nil {
		return err
	}
	return f.finish()
}

// lockWritable refuses a lock file that could not be updated afterwards,
// before anything is sent.
func lockWritable(path string, dryRun bool) error {
	if _, err := lock.Load(path); err != nil && !dryRun {
		return withHint(usageError{err}, "restore %s, for example from git", path)
	}
	return nil
}

// variantsAt names the variants of a revision.
func variantsAt(ctx context.Context, c *client.Client, t client.RepoType, id, revision string) (map[string]bool, error) {
	src, err := hubSource(ctx, c, t, id, revision)
	if err != nil {
		return nil, err
	}
	files, err := src.Files(ctx)
	there := map[string]bool{}
	for name := range source.Variants(files) {
		there[name] = true
	}
	return there, err
}

// gateError gives what the gates found, or a bad option, its exit code; the
// text lists it.
func gateError(err error) error {
	var problems bundle.Problems
	var option publish.OptionError
	switch {
	case errors.As(err, &problems):
		return findingsError{err.Error()}
	case errors.As(err, &option):
		return usageError{err}
	}
	return err
}

// requiredNames are the required variants that this kernel's own manifest
// does not rule out.
func requiredNames(p *manifests.Project, k *manifests.Kernel) ([]string, error) {
	vs, err := matrix.Expand(k, p.Workspace)
	if err != nil {
		return nil, usageError{err}
	}
	var names []string
	for _, v := range vs {
		if v.Status == matrix.Required {
			names = append(names, v.Name.String())
		}
	}
	return names, nil
}

func oneKernel(p *manifests.Project, name string) (*manifests.Kernel, error) {
	for _, k := range p.Kernels {
		if k.General.Name == name {
			return k, nil
		}
	}
	if name != "" {
		return nil, usagef("the workspace has no kernel %q", name)
	}
	if len(p.Kernels) != 1 {
		return nil, withHint(usagef("the workspace has %d kernels", len(p.Kernels)), "choose one with --kernel NAME")
	}
	return p.Kernels[0], nil
}

func parseRepoType(s string) (client.RepoType, error) {
	switch t := client.RepoType(s); t {
	case client.Kernel, client.Model:
		return t, nil
	}
	return "", usagef("--repo-type %s: expected kernel or model", s)
}

// publishProgress shows bytes with rate and time left on a terminal, and the
// phases elsewhere.
func publishProgress(s *Streams) func(publish.Progress) {
	var last time.Time
	var said int64
	return func(p publish.Progress) {
		if !s.ErrTTY {
			// Once per size: a plan that is made again may send more.
			if p.Phase == "upload" && p.Total > 0 && p.Total != said {
				s.notef("uploading %s", megabytes(p.Total))
				said = p.Total
			}
			return
		}
		done := p.Total > 0 && p.Sent >= p.Total
		if p.Phase != "upload" || (time.Since(last) < 100*time.Millisecond && !done) {
			return
		}
		last = time.Now()
		fmt.Fprintf(s.Err, "\r\x1b[Kuploading %s of %s  %.1f MB/s  %s left", megabytes(p.Sent), megabytes(p.Total),
			p.Rate/1e6, p.Left.Round(time.Second))
		if done {
			fmt.Fprint(s.Err, "\r\x1b[K")
		}
	}
}

func megabytes(n int64) string {
	if n < 1e6 {
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

func firstOf(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}
