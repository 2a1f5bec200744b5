// Package command is the command line of thoxbuild: one file per verb, each a
// thin layer that parses flags, calls the rooms and prints. It is the only
// package that sees all rooms, and the only one that picks exit codes.
package command

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"
)

// Main runs one command line and returns the process exit code. The context
// ends at the first thing that would end the process: an interrupt, a terminal
// that goes away, an output that nobody reads any more. Otherwise the compilers
// that run, each in a group of its own, would outlive the command. A second
// signal kills the process the usual way, so a hung clean-up cannot hold a
// terminal.
func Main(parent context.Context, args []string, s *Streams) int {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(parent, ends...)
	defer stop()
	context.AfterFunc(ctx, stop)

	// A Hub's client that hangs up raises SIGPIPE as the reader of stdout does.
	// Caught, and the channel never read, it leaves the writer with EPIPE: an
	// error of that connection, or for a stream the end of the command.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, unread := context.WithCancel(ctx)
	defer unread()
	s, answer := s.watch(unread)

	root := newRoot(s)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = answer() // an answer that is cut short is none
	}
	if err != nil {
		printError(s, ctx, err)
	}
	return exitCode(ctx, err)
}

// globals are the flags that every verb understands.
type globals struct {
	streams  *Streams
	dir      string // -C: where the kernel or workspace is
	store    string
	indexURL string
	offline  bool
	verbose  bool
}

func newRoot(s *Streams) *cobra.Command {
	g := &globals{streams: s}
	root := &cobra.Command{
		Use:   "thoxbuild",
		Short: "Build, check and publish PyTorch kernels for every variant from one machine",
		Long: `thoxbuild reads a kernel's build.toml, fetches the compilers by itself, builds
every torch x compute x platform variant, proves each binary safe to load, and
publishes it pinned to a revision.

Exit status: 0 ok, 1 failed, 2 bad usage or configuration, 3 findings,
130 interrupted.`,
		Example: `  $ thoxbuild matrix
  $ thoxbuild build --variant 'torch213-cxx11-cpu-*'
  $ thoxbuild abicheck build/
  $ thoxbuild publish --repo thox-ai/thox-edge-ops`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SuggestionsMinimumDistance = 2
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return withHint(usageError{err}, "run '%s --help' for the flags", c.CommandPath())
	})
	f := root.PersistentFlags()
	f.StringVarP(&g.dir, "chdir", "C", ".", "folder of the kernel or workspace (holds build.toml)")
	f.StringVar(&g.store, "store", "", "toolchain store and cache (default $THOXBUILD_STORE, else the user cache folder)")
	f.StringVar(&g.indexURL, "index-url", "", "package index (default $THOXBUILD_INDEX_URL, then pip's own settings)")
	f.BoolVar(&g.offline, "offline", false, "use only what the store already holds")
	f.BoolVarP(&g.verbose, "verbose", "v", false, "say more on stderr")
	root.AddCommand(commands(g)...)
	root.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		err := usagef("unknown command %q", args[0])
		if near := root.SuggestionsFor(args[0]); len(near) > 0 {
			return withHint(err, "did you mean %q?", near[0])
		}
		return withHint(err, "run 'thoxbuild --help' for the commands")
	}
	root.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	for _, c := range root.Commands() {
		requireKnownVerb(c)
		usageArgs(c)
	}
	return root
}

// usageArgs makes wrong arguments of a command, and of those below it, usage
// errors: cobra reports them as plain ones.
func usageArgs(c *cobra.Command) {
	for _, sub := range c.Commands() {
		usageArgs(sub)
	}
	check := c.Args
	if check == nil {
		return
	}
	c.Args = func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return withHint(usageError{err}, "usage: %s", c.UseLine())
		}
		return nil
	}
}

// requireKnownVerb makes a command that only groups verbs refuse unknown ones;
// cobra would print the help and exit 0.
func requireKnownVerb(c *cobra.Command) {
	if c.HasSubCommands() && c.RunE == nil {
		c.Args = cobra.NoArgs
		c.RunE = func(c *cobra.Command, _ []string) error {
			return withHint(usagef("'%s' needs a verb", c.CommandPath()), "run '%s --help' to list them", c.CommandPath())
		}
	}
}

// storeDir is where toolchains and the build cache live.
func (g *globals) storeDir() (string, error) {
	dir := g.store
	if dir == "" {
		dir = os.Getenv("THOXBUILD_STORE")
	}
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", withHint(fmt.Errorf("find the user cache folder: %w", err), "set THOXBUILD_STORE or give --store DIR")
		}
		dir = filepath.Join(base, "thoxbuild")
	}
	dir, err := filepath.Abs(dir)
	if err == nil && strings.ContainsFunc(dir, func(r rune) bool { return r == ':' && os.PathListSeparator == ':' || unicode.IsControl(r) }) {
		// zig writes dependencies down in make's form, and cannot read it back then.
		return "", withHint(usagef("store %q: expected a path without colons and control characters, which compilers cannot have in their own", dir),
			"set THOXBUILD_STORE or give --store DIR")
	}
	return dir, err
}

// releaseVersion is set by a release build: -ldflags "-X ...releaseVersion=1.2".
var releaseVersion string

// version names this build: the release, else the commit it was built from.
var version = sync.OnceValue(func() string {
	if releaseVersion != "" {
		return releaseVersion
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	rev, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			rev = s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if rev == "" {
		return "devel"
	}
	return "devel-" + rev + dirty
})
