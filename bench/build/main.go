// Command build times thoxbuild's builds against what people use instead. Each
// benchmark is one command, run in the repository's root after `make`:
//
//	go run ./bench/build cold      # compilers fetched, one CPU variant built; against pip install torch + cpp_extension
//	go run ./bench/build noop      # every variant, nothing to do; against ninja with as many edges
//	go run ./bench/build edit      # one line of an instruction-set unit changes: which actions run
//	go run ./bench/build matrix    # one build of many variants against each built on its own
//	go run ./bench/build variants  # the table of what lies in build/, and what each took
//
// Times are wall-clock with the processor seconds beside them, which a busy
// machine changes less. Runs alternate, and the ratio is printed with its
// least and most. Nothing here fails because something is slow.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

var (
	thoxbuild = flag.String("thoxbuild", "bin/thoxbuild", "the program")
	store     = flag.String("store", "", "store with the fetched compilers (default $THOXBUILD_STORE, else .cache/store)")
	dir       = flag.String("C", ".", "the workspace")
	pairs     = flag.Int("pairs", 3, "runs of each contender")
	variants  = flag.String("variant", "", "globs of variants, with commas (default what the benchmark is about)")
	python    = flag.String("python", "python3", "Python for the peer's environment")
	torch     = flag.String("torch", "torch==2.13.0", "what the peer installs")
)

func main() {
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: build [flags] cold|noop|edit|matrix|variants")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, what string) error {
	if *store == "" {
		*store = os.Getenv("THOXBUILD_STORE")
	}
	if *store == "" {
		*store = filepath.Join(".cache", "store")
	}
	for _, p := range []*string{thoxbuild, store, dir} {
		abs, err := filepath.Abs(*p)
		if err != nil {
			return err
		}
		*p = abs
	}
	fn := map[string]func(context.Context, string) error{
		"cold": cold, "noop": noop, "edit": edit, "matrix": matrixRuns, "variants": table,
	}[what]
	if fn == nil {
		flag.Usage()
		os.Exit(2)
	}
	tmp, err := os.MkdirTemp("", "thoxbuild-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	return fn(ctx, tmp)
}

// globs are --variant flags.
func globs(otherwise string) []string {
	text := *variants
	if text == "" {
		text = otherwise
	}
	var out []string
	for _, g := range strings.Split(text, ",") {
		if g != "" {
			out = append(out, "--variant", g)
		}
	}
	return out
}
