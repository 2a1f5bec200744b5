package command

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/hub/oci"
	"github.com/thox-ai/thoxbuild/hub/source"
	"github.com/thox-ai/thoxbuild/hub/verify"
	"github.com/thox-ai/thoxbuild/manifests"
)

func newVerify(g *globals) *cobra.Command {
	var endpoint, lockFile, kernelsLock, repoType, dir, cache, as, key, policy, provenanceFrom string
	var o verify.Options
	var again rebuildOptions
	var asJSON bool
	c := &cobra.Command{
		Use:   "verify [REPO[@REVISION] | oci://HOST/REPO[:TAG]]",
		Short: "Hold a revision, a folder or an installed cache against the lock and the digests",
		Long: `Verify reads every file of a published revision and compares it with the digests
in thoxbuild.lock and in each variant's metadata.json. Every difference is
named: a moved branch, an edited lock, a swapped, missing or extra file, a
variant that was added later. With --key or --policy, every variant must also
be signed by somebody who is trusted to sign this repository.

With --rebuild, every variant is also built again, from the commit that its
metadata names and with the tools that the commit's toolchain.lock pins, and
compared file by file. The commit has to be in the git repository of -C;
--sources DIR takes a folder as it is instead.

Exit status 3 means that something differs.`,
		Example: `  $ thoxbuild verify                             # what thoxbuild.lock pins, on the Hub
  $ thoxbuild verify oci://registry.example.org/thox-ai/thox-edge-ops:v1
  $ thoxbuild verify --dir build
  $ thoxbuild verify --rebuild thox-ai/thox-edge-ops@v2 --variant torch213-cxx11-cpu-x86_64-linux
  $ thoxbuild verify --cache ~/.cache/huggingface/hub thox-ai/thox-edge-ops`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			if !again.on && (again.sources != "" || again.keep != "" || again.jobs != 0 || again.timeout != 0) {
				return usagef("--sources, --keep, --jobs and --timeout say how to --rebuild, which was not given")
			}
			var id, revision string
			if len(args) == 1 {
				id, revision = splitRevision(args[0])
			}
			t, err := parseRepoType(repoType)
			if err != nil {
				return err
			}
			f, err := lock.Load(lockFile)
			switch {
			case errors.Is(err, lock.ErrEdited):
				o.LockErr = err
			case err != nil && (len(args) == 0 && dir == "" || !errors.Is(err, os.ErrNotExist)):
				return withHint(usageError{err}, "name a revision, or give the lock with --lock FILE")
			}
			if f != nil && (id != "" || len(f.Kernels) > 0) {
				if o.Lock, err = lockEntry(f, id, revision, lockFile); err != nil {
					return err
				}
			}
			if o.Lock != nil {
				if id == "" {
					id = o.Lock.Repo
				}
				if o.Lock.Type != "" {
					t = o.Lock.Type
				}
			}
			if kernelsLock != "" {
				b, err := os.ReadFile(kernelsLock)
				if err != nil {
					return usageError{err}
				}
				if o.KernelsLock, err = manifests.ParseLock(b); err != nil {
					return usageError{fmt.Errorf("%s: %w", kernelsLock, err)}
				}
			}
			trusted, err := trustFlags(key, policy)
			if err != nil {
				return err
			}
			var src source.Source
			switch {
			case trusted == nil && provenanceFrom != "":
				return usagef("--provenance needs --key or --policy: who is trusted")
			case trusted != nil && provenanceFrom != "":
				o.Signature = checkProvenance(trusted, lockName(id), provenanceFrom, func() source.Source { return src })
			case trusted != nil:
				o.Signature = trusted.For(lockName(id))
			}
			switch {
			case dir != "":
				src, err = source.OpenFolder(dir)
			case cache != "":
				o.Installed = true
				src, err = openCache(cache, t, id, firstOf(revision, lockedRevision(o.Lock)), as)
			case strings.HasPrefix(id, oci.Scheme):
				target, terr := registryTarget(id, revision)
				if terr != nil {
					return terr
				}
				if target.Tag == "" && target.Digest == "" {
					if target.Digest = lockedRevision(o.Lock); target.Digest == "" {
						return usagef("no revision to verify: give a tag, a digest, or a lock that pins one")
					}
				}
				image, oerr := oci.Open(ctx, target, oci.Access{Log: g.streams.notef}, o.Variants...)
				if oerr != nil {
					return oerr
				}
				defer image.Close()
				src = image
			default:
				hc, cerr := g.hubClient(ctx, endpoint)
				if cerr != nil {
					return cerr
				}
				if revision = firstOf(revision, lockedRevision(o.Lock)); revision == "" {
					return usagef("no revision to verify: give REPO@REVISION or a lock that pins one")
				}
				src, err = hubSource(ctx, hc, t, id, revision)
			}
			if err != nil {
				return err
			}
			r, err := verify.Run(ctx, src, o)
			if err != nil {
				return err
			}
			if again.on {
				if err := g.rebuild(ctx, src, o.Variants, again, r); err != nil {
					return err
				}
			}
			if asJSON {
				if err := printJSON(g.streams.Out, r); err != nil {
					return err
				}
			} else {
				for _, p := range r.Problems {
					fmt.Fprintln(g.streams.Out, p)
				}
				for _, n := range r.Notes {
					g.streams.notef("note: %s", n)
				}
			}
			if !r.OK() {
				return findingsError{fmt.Sprintf("%s: %d problems", r.Source, len(r.Problems))}
			}
			said := "what was locked"
			if o.Lock == nil {
				said = "what its own digests say"
			}
			if again.on {
				said = "what its sources give"
			}
			g.streams.notef("%s is %s: %d variants, %d files, %s", r.Source, said, len(r.Variants), r.Files, megabytes(r.Bytes))
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&lockFile, "lock", lock.FileName, "the lock `FILE`")
	f.StringVar(&kernelsLock, "kernels-lock", "", "also compare this kernels.lock")
	f.StringVar(&endpoint, "endpoint", "", "the Hub's address (default $HF_ENDPOINT)")
	f.StringVar(&repoType, "repo-type", "kernel", "kernel or model")
	f.StringVar(&dir, "dir", "", "verify the variants in a folder")
	f.StringVar(&cache, "cache", "", "verify what is installed in a Hub cache folder")
	f.StringVar(&as, "as", "", "`NAMESPACE/NAME` in the cache of a kernel from a registry (default the end of its path)")
	f.StringVar(&key, "key", "", "require a signature by this public key `FILE`")
	f.StringVar(&policy, "policy", "", "require a signature that this policy `FILE` allows (issuer, identity, repository)")
	f.BoolVar(&again.on, "rebuild", false, "also build every variant again and compare it")
	f.StringVar(&again.sources, "sources", "", "with --rebuild, take the sources from `DIR` and not from a commit")
	f.StringVar(&again.keep, "keep", "", "with --rebuild, leave the rebuilt variants in `DIR`")
	f.IntVarP(&again.jobs, "jobs", "j", 0, "with --rebuild, how many actions run at once (default one per processor)")
	f.DurationVar(&again.timeout, "timeout", 0, "with --rebuild, end a single action after this time (0 = never)")
	f.StringVar(&provenanceFrom, "provenance", "", "require signed provenance as well: in `DIR`, or 'registry' for what is attached there")
	f.StringSliceVar(&o.Variants, "variant", nil, "only these variants")
	f.BoolVar(&asJSON, "json", false, "print the report as JSON")
	return c
}

// openCache finds an installed revision. A cache knows an image, whose digest
// is longer than a commit's, by the start of that digest.
func openCache(cache string, t client.RepoType, id, revision, as string) (*source.Folder, error) {
	if !strings.HasPrefix(id, oci.Scheme) {
		repo, err := client.ParseRepo(t, id)
		if err != nil {
			return nil, usageError{err}
		}
		return source.OpenCache(cache, repo, revision)
	}
	target, err := registryTarget(id, "")
	if err != nil {
		return nil, err
	}
	repo, err := registryRepo(target, as)
	if err != nil {
		return nil, err
	}
	revision = firstOf(target.Digest, target.Tag, revision)
	hexes, image := strings.CutPrefix(revision, "sha256:")
	if !image || len(hexes) != 64 {
		return source.OpenCache(cache, repo, revision)
	}
	f, err := source.OpenCache(cache, repo, hexes[:40])
	if err == nil {
		f.Commit = revision
	}
	return f, err
}

func lockedRevision(k *lock.Kernel) string {
	if k == nil {
		return ""
	}
	return k.Revision
}
