package command

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/mirror"
	"github.com/thox-ai/thoxbuild/hub/server"
	"github.com/thox-ai/thoxbuild/hub/store"
)

func newHub(g *globals) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "hub",
		Short: "Run and look after the embedded Hub",
		Long: `The embedded Hub serves what kernels and huggingface_hub ask of a Hub, from one
folder: for a laptop, for CI, or for a fleet without the internet.`,
	}
	c.PersistentFlags().StringVar(&dir, "dir", "hub", "folder of the Hub's store")
	c.AddCommand(hubServe(g, &dir), hubToken(g, &dir), hubFsck(g, &dir), hubGC(g, &dir), hubExport(g, &dir), hubImport(g, &dir), hubMirror(g, &dir))
	return c
}

func hubServe(g *globals, dir *string) *cobra.Command {
	var addr string
	var o server.ServeOptions
	var quiet, noXet, proxy bool
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve the Hub; its address is the first line on stdout",
		Example: `  $ thoxbuild hub serve --dir hub --addr 127.0.0.1:0
  http://127.0.0.1:40123
  $ HF_ENDPOINT=http://127.0.0.1:40123 python -c 'import kernels; ...'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return withStore(*dir, func(st *store.Store) error {
				opts := server.Options{Store: st, NoXet: noXet, TrustProxy: proxy}
				if !quiet {
					opts.Log = slog.New(slog.NewTextHandler(g.streams.Err, nil))
				}
				s, err := server.New(opts)
				if err != nil {
					return err
				}
				o.Ready = func(url string) { fmt.Fprintln(g.streams.Out, url) }
				err = s.Serve(c.Context(), addr, o)
				if c.Context().Err() != nil {
					return nil // asked to stop, and stopped cleanly
				}
				return err
			})
		},
	}
	f := c.Flags()
	f.StringVar(&addr, "addr", "127.0.0.1:0", "`HOST:PORT` to listen on; port 0 takes a free one")
	f.StringVar(&o.CertFile, "tls-cert", "", "certificate `FILE`")
	f.StringVar(&o.KeyFile, "tls-key", "", "key `FILE`")
	f.BoolVar(&proxy, "trust-proxy", false, "take scheme and host from X-Forwarded headers")
	f.BoolVar(&noXet, "no-xet", false, "let clients send files inside commits instead of through Xet")
	f.BoolVarP(&quiet, "quiet", "q", false, "do not log requests")
	return c
}

func hubToken(g *globals, dir *string) *cobra.Command {
	var t store.Token
	var role string
	add := &cobra.Command{
		Use:   "add USER NAME",
		Short: "Make a token; it is printed once and only its hash is kept",
		Args:  cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			t.User, t.Name, t.Role = args[0], args[1], store.Role(role)
			if t.Role != store.Read && t.Role != store.Write {
				return usagef("--role %s: expected read or write", role)
			}
			return withStore(*dir, func(st *store.Store) error {
				secret, err := st.AddToken(t)
				if err != nil {
					return err
				}
				fmt.Fprintln(g.streams.Out, secret)
				return nil
			})
		},
	}
	add.Flags().StringVar(&role, "role", "write", "read or write")
	add.Flags().StringSliceVar(&t.Namespaces, "namespace", nil, "limit the token to these namespaces")
	remove := &cobra.Command{
		Use:   "remove USER NAME",
		Short: "Remove a token",
		Args:  cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			return withStore(*dir, func(st *store.Store) error { return st.RemoveToken(args[0], args[1]) })
		},
	}
	list := &cobra.Command{
		Use:   "list",
		Short: "List the tokens, without their secrets",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return withStore(*dir, func(st *store.Store) error {
				w := tabwriter.NewWriter(g.streams.Out, 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "USER\tNAME\tROLE\tNAMESPACES\tMADE")
				for _, t := range st.Tokens() {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", t.User, t.Name, t.Role, firstOf(strings.Join(t.Namespaces, ","), "all"), t.CreatedAt.Format(time.DateOnly))
				}
				return w.Flush()
			})
		},
	}
	c := &cobra.Command{Use: "token", Short: "Manage the Hub's tokens"}
	c.AddCommand(add, list, remove)
	return c
}

func hubFsck(g *globals, dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "fsck",
		Short: "Verify every object, reference and large file of the store",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return withStore(*dir, func(st *store.Store) error {
				r, err := st.Fsck(c.Context())
				if err != nil {
					return err
				}
				for _, f := range r.Findings {
					fmt.Fprintln(g.streams.Out, f)
				}
				if len(r.Findings) > 0 {
					return findingsError{fmt.Sprintf("%d problems in %s", len(r.Findings), *dir)}
				}
				g.streams.notef("%s is sound", *dir)
				return nil
			})
		},
	}
}

func hubGC(g *globals, dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "gc",
		Short: "Remove what no branch, tag or pull request reaches",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return withStore(*dir, func(st *store.Store) error {
				r, err := st.GC(c.Context(), store.GCOptions{})
				if err != nil {
					return err
				}
				return printJSON(g.streams.Out, r)
			})
		},
	}
}

func hubExport(g *globals, dir *string) *cobra.Command {
	var repos []string
	c := &cobra.Command{
		Use:   "export FILE",
		Short: "Write repositories to one archive (- for stdout), for a device or another Hub",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return withStore(*dir, func(st *store.Store) error {
				want := func(i store.Info) bool { return len(repos) == 0 || slices.Contains(repos, i.ID) }
				for _, r := range repos {
					if len(filter(st.List(), func(i store.Info) bool { return i.ID == r })) == 0 {
						return usagef("the Hub in %s has no repository %s", *dir, r)
					}
				}
				f, err := g.streams.create(args[0])
				if err != nil {
					return err
				}
				defer f.close()
				if err := st.Export(c.Context(), f, want); err != nil {
					return err
				}
				return f.finish()
			})
		},
	}
	c.Flags().StringSliceVar(&repos, "repo", nil, "only these repositories")
	return c
}

func hubImport(g *globals, dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE",
		Short: "Add the repositories of an archive",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return withStore(*dir, func(st *store.Store) error {
				var in io.Reader = g.streams.In
				if args[0] != "-" {
					f, err := os.Open(args[0])
					if err != nil {
						return err
					}
					defer f.Close()
					in = f
				}
				repos, err := st.Import(c.Context(), in)
				if err != nil {
					return err
				}
				for _, r := range repos {
					fmt.Fprintln(g.streams.Out, r.ID)
				}
				return nil
			})
		},
	}
}

func hubMirror(g *globals, dir *string) *cobra.Command {
	var endpoint, branch, repoType string
	c := &cobra.Command{
		Use:   "mirror REPO@REVISION",
		Short: "Copy one revision of another Hub's repository into this one",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, revision := splitRevision(args[0])
			t, err := parseRepoType(repoType)
			if err != nil {
				return err
			}
			repo, err := client.ParseRepo(t, id)
			if err != nil {
				return usageError{err}
			}
			if revision == "" {
				return usagef("%q: expected REPO@REVISION", args[0])
			}
			from, err := g.hubClient(c.Context(), endpoint)
			if err != nil {
				return err
			}
			return withStore(*dir, func(st *store.Store) error {
				r, err := mirror.Copy(c.Context(), st, mirror.Options{From: from, Repo: repo, Revision: revision, Branch: branch})
				if err != nil {
					return err
				}
				g.streams.notef("%d files of %s, %s fetched, on branch %s", r.Files, r.Source, megabytes(r.Fetched), r.Branch)
				fmt.Fprintf(g.streams.Out, "%s@%s\n", id, r.Commit)
				return nil
			})
		},
	}
	c.Flags().StringVar(&endpoint, "from", "", "the other Hub's address (default $HF_ENDPOINT)")
	c.Flags().StringVar(&branch, "branch", "", "branch to copy to (default the revision's name)")
	c.Flags().StringVar(&repoType, "repo-type", "kernel", "kernel or model")
	return c
}

// withStore opens a Hub's store for one command.
func withStore(dir string, fn func(*store.Store) error) error {
	st, err := store.Open(dir)
	if err != nil {
		return withHint(err, "only one process may use a Hub's folder; is 'thoxbuild hub serve' running on %s?", dir)
	}
	err = fn(st)
	if closeErr := st.Close(); err == nil {
		err = closeErr
	}
	return err
}
