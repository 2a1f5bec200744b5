package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/manifests"
)

func newLock(g *globals) *cobra.Command {
	var endpoint, format string
	c := &cobra.Command{
		Use:   "lock [DIR | REPO@VERSION...]",
		Short: "Resolve kernel versions to commits and write kernels.lock and thoxbuild.lock",
		Long: `Lock reads [tool.kernels.dependencies] of DIR/pyproject.toml, or the versions on
the command line, resolves each, and what it depends on, to a commit, and
writes kernels.lock (for the kernels library) and thoxbuild.lock (with a digest
of each variant) to DIR.`,
		Example: `  $ thoxbuild lock .
  $ thoxbuild lock thox-ai/thox-edge-ops@2`,
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			dir, deps, err := lockRequest(args)
			if err != nil {
				return err
			}
			hc, err := g.hubClient(ctx, endpoint)
			if err != nil {
				return err
			}
			resolved, err := lock.Resolve(ctx, hc, deps)
			if err != nil {
				return err
			}
			text, err := kernelsLock(c, hc, resolved, format)
			if err != nil {
				return err
			}
			if err := renameio.WriteFile(filepath.Join(dir, manifests.LockFile), text, 0o644); err != nil {
				return err
			}
			return lock.Update(ctx, filepath.Join(dir, lock.FileName), func(f *lock.File) error {
				for _, r := range resolved {
					k := r.Kernel()
					f.Set(k, func(string) bool { return false })
					fmt.Fprintf(g.streams.Out, "%s@%s\n", k.Repo, k.Revision)
				}
				return nil
			})
		},
	}
	c.Flags().StringVar(&endpoint, "endpoint", "", "the Hub's address (default $HF_ENDPOINT)")
	c.Flags().StringVar(&format, "format", "current", "shape of kernels.lock: current (kernels 0.17) or legacy")
	return c
}

// lockRequest reads what to lock, and where, from the arguments.
func lockRequest(args []string) (dir string, deps []manifests.KernelDependency, err error) {
	dir = "."
	if len(args) == 1 {
		if fi, err := os.Stat(args[0]); err == nil && fi.IsDir() {
			dir, args = args[0], nil
		}
	}
	if len(args) == 0 {
		path := filepath.Join(dir, "pyproject.toml")
		b, err := os.ReadFile(path)
		if err != nil {
			return "", nil, usageError{err}
		}
		deps, err = lock.PyProject(b)
		if err != nil {
			return "", nil, usageError{fmt.Errorf("%s: %w", path, err)}
		}
		return dir, deps, nil
	}
	for _, a := range args {
		repo, version := splitRevision(a)
		d := manifests.KernelDependency{RepoID: repo, Revision: version}
		if n, err := strconv.Atoi(version); err == nil {
			d.Version, d.Revision = &n, ""
		}
		if version == "" {
			return "", nil, usagef("%q: expected REPO@VERSION or REPO@REVISION", a)
		}
		deps = append(deps, d)
	}
	return dir, deps, nil
}

func kernelsLock(c *cobra.Command, hc *client.Client, resolved []lock.Resolved, format string) ([]byte, error) {
	var l manifests.Lock
	for _, r := range resolved {
		switch format {
		case "current":
			l.Set(r.Locked())
		case "legacy":
			repo, err := client.ParseRepo(client.Kernel, r.Dependency.RepoID)
			if err != nil {
				return nil, err
			}
			old, err := lock.Legacy(c.Context(), hc, repo, r.Commit)
			if err != nil {
				return nil, err
			}
			l.Legacy = append(l.Legacy, old)
		default:
			return nil, usagef("--format %s: expected current or legacy", format)
		}
	}
	return l.Print()
}
