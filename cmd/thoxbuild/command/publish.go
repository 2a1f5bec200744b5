package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/thox-ai/thoxbuild/abicheck"
	"github.com/thox-ai/thoxbuild/abicheck/report"
	"github.com/thox-ai/thoxbuild/hub/bundle"
	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/hub/publish"
	"github.com/thox-ai/thoxbuild/manifests"
	"github.com/thox-ai/thoxbuild/matrix"
)

func newPublish(g *globals) *cobra.Command {
	var o publish.Options
	var kernel, lockFile, jsonPath, repoType string
	c := &cobra.Command{
		Use:   "publish",
		Short: "Publish the built variants to a Hub and pin the revision",
		Long: `Publish checks the variants in build/, sends what the Hub does not have, and
commits them to branch v<version>. It prints the revision and records it, with
a digest of each variant, in thoxbuild.lock. Nothing is published when a check
finds an error, whatever flag is given.

The endpoint is HF_ENDPOINT, the token HF_TOKEN or huggingface_hub's file.`,
		Example: `  $ thoxbuild publish --repo thox-ai/thox-edge-ops
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
			if o.Repo == "" {
				o.Repo = firstOf(p.Workspace.Publish.Repo, k.General.Hub.RepoID)
			}
			if o.Repo == "" {
				return withHint(usagef("no repository to publish to"), "give --repo NAMESPACE/NAME, or set [publish] repo in build.toml")
			}
			if o.RepoType, err = parseRepoType(repoType); err != nil {
				return err
			}
			if o.Endpoint == "" {
				o.Endpoint = client.DefaultEndpoint(os.Getenv)
			}
			if o.Branch == "" {
				o.Branch = k.General.Hub.Branch
			}
			if o.Token, _, err = client.DiscoverToken(ctx, o.Endpoint, os.Getenv); err != nil {
				return err
			}
			if o.Required, err = requiredNames(p, k); err != nil {
				return err
			}
			if o.Card == "" {
				if card := filepath.Join(k.Dir, "CARD.md"); fileExists(card) {
					o.Card = card
				}
			}
			o.Gates = append(o.Gates, abiGate)
			o.Progress = publishProgress(g.streams)
			o.Log = g.streams.notef
			res, err := publish.Run(ctx, o)
			if err != nil {
				return err
			}
			return finishPublish(ctx, g.streams, o, res, firstOf(lockFile, filepath.Join(p.Workspace.Dir, lock.FileName)), jsonPath)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Repo, "repo", "", "repository, `NAMESPACE/NAME`")
	f.StringVar(&repoType, "repo-type", "kernel", "kernel or model")
	f.StringVar(&o.Endpoint, "endpoint", "", "the Hub's address (default $HF_ENDPOINT)")
	f.StringVar(&o.Dir, "dir", "", "folder of the variants (default build/ beside build.toml)")
	f.StringVar(&kernel, "kernel", "", "which kernel of the workspace")
	f.StringSliceVar(&o.Variants, "variant", nil, "only variants whose names match `GLOB`")
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
		entry := lock.Kernel{Repo: res.Repo, Type: o.RepoType, Branch: res.Branch, Revision: res.Revision,
			Published: published, Variants: res.Variants}
		err = lock.Update(ctx, lockPath, func(f *lock.File) error {
			f.Set(entry, func(string) bool { return false })
			return nil
		})
		if err != nil {
			return withHint(fmt.Errorf("published %s, but the lock file was not written: %w", res.Revision, err),
				"mend %s and publish again: nothing will be sent twice", lockPath)
		}
	}
	switch jsonPath {
	case "":
	case "-":
		return printJSON(s.Out, res)
	default:
		var b bytes.Buffer
		if err := printJSON(&b, res); err != nil {
			return err
		}
		if err := renameio.WriteFile(jsonPath, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	for _, name := range sortedNames(res.Variants) {
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

// abiGate refuses a bundle in which abicheck finds an error.
func abiGate(ctx context.Context, b *bundle.Bundle) error {
	var paths []string
	for _, v := range b.Variants {
		paths = append(paths, v.Dir)
	}
	r, err := abicheck.Check(ctx, paths, &abicheck.Options{TorchExports: torchExports})
	if err != nil {
		return err
	}
	if !r.Failed() {
		return nil
	}
	var text bytes.Buffer
	if err := r.Text(&text, report.TextOptions{}); err != nil {
		return err
	}
	return findingsError{fmt.Sprintf("nothing was published: abicheck found errors\n%s", text.String())}
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
	phase := ""
	return func(p publish.Progress) {
		if !s.ErrTTY {
			if p.Phase != phase && p.Phase == "upload" && p.Total > 0 {
				s.notef("uploading %s", megabytes(p.Total))
			}
			phase = p.Phase
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

func fileExists(p string) bool {
	_, err := os.Stat(p)
	return !errors.Is(err, os.ErrNotExist)
}
