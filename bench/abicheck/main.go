// Command abicheck times two halves of abicheck on one large library, each
// beside a peer, as processes of their own, in turn: the facts rules beside
// kernel-abi-check, the checker of kernel-builder, and the whole instruction
// set pass (functions, classes, calls, CPU tests) beside objdump -d, which
// only decodes. It prints wall time and peak memory, and for code the bytes
// that one core gets through in a second of processor time.
//
//	go run ./bench/abicheck [-file LIB] [-runs 10] [-peer PROGRAM] [-isa-runs 3] [-objdump PROGRAM]
//
//	go run ./bench/abicheck -peers [-python PYTHON]
//
// The second form builds the fixtures of abicheck's tests and prints which of
// their defects abicheck, auditwheel, kernel-abi-check, abi3audit and checksec
// find. It installs the peers into a temporary folder.
//
// Without -peer the first form builds the pinned release with cargo into a temporary
// folder; without cargo it prints its own figures alone and says so. A run
// count of 0 leaves a half out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/thox-ai/thoxbuild/abicheck"
)

// peerVersion is the last release of kernel-abi-check with a program.
const peerVersion = "0.14.1"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	file := flag.String("file", "", "library to check; the default is libtorch_cpu.so of .venv")
	runs := flag.Int("runs", 10, "runs of each program")
	peer := flag.String("peer", "", "kernel-abi-check program, instead of building one")
	isaRuns := flag.Int("isa-runs", 3, "runs of the instruction set pass; objdump runs once")
	objdump := flag.String("objdump", "objdump", "objdump to compare with, none for no peer")
	self := flag.String("self", "", "check the file once, its facts or isa, and end (what is timed)")
	peers := flag.Bool("peers", false, "print what each peer finds and misses in the fixtures, instead of timing")
	python := flag.String("python", "", "Python with the peers installed, instead of installing them")
	flag.Parse()
	var err error
	switch {
	case *peers:
		err = peersTable(ctx, *python)
	case *self != "":
		err = once(ctx, *file, *self == "facts")
	default:
		if *file == "" {
			*file, err = largest()
		}
		if err == nil && *runs > 0 {
			err = compare(ctx, *file, *peer, *runs)
		}
		if err == nil && *isaRuns > 0 {
			err = compareISA(ctx, *file, *objdump, *isaRuns)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/abicheck:", err)
		os.Exit(1)
	}
}

func once(ctx context.Context, file string, facts bool) error {
	_, err := abicheck.Check(ctx, []string{file}, &abicheck.Options{FactsOnly: facts})
	return err
}

// largest finds the library that everything is measured on.
func largest() (string, error) {
	found, _ := filepath.Glob(".venv/lib/python3*/site-packages/torch/lib/libtorch_cpu.so")
	if len(found) == 0 {
		return "", errors.New("no torch in .venv: run make venv, or give -file")
	}
	return found[0], nil
}

func compare(ctx context.Context, file, peer string, runs int) error {
	me, err := os.Executable()
	if err != nil {
		return err
	}
	type program struct {
		name string
		argv []string
		// finds tells that the exit status 1 is an answer.
		finds bool
		wall  []time.Duration
		peak  int64
	}
	programs := []*program{{name: "thoxbuild abicheck, facts", argv: []string{me, "-self", "facts", "-file", file}}}
	if peer == "" {
		dir, err := os.MkdirTemp("", "bench-abicheck-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if peer, err = install(ctx, dir); err != nil {
			fmt.Fprintln(os.Stderr, "no peer:", err)
		}
	}
	if peer != "" {
		programs = append(programs, &program{name: "kernel-abi-check " + peerVersion, argv: []string{peer, file}, finds: true})
	}
	for range runs + 1 { // the first run of each only fills the page cache
		for _, p := range programs {
			cmd := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...)
			start := time.Now()
			err := cmd.Run()
			wall := time.Since(start)
			var exit *exec.ExitError
			if err != nil && !(p.finds && errors.As(err, &exit) && exit.ExitCode() == 1) {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			p.wall = append(p.wall, wall)
			if ru, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
				p.peak = max(p.peak, ru.Maxrss*1024)
			}
		}
	}
	st, err := os.Stat(file)
	if err != nil {
		return err
	}
	fmt.Printf("%s, %d MB, %d runs each\n", filepath.Base(file), st.Size()/1e6, runs)
	for _, p := range programs {
		w := p.wall[1:]
		slices.Sort(w)
		fmt.Printf("%-28s min %6.1f ms   median %6.1f ms   max %6.1f ms   peak %4d MB\n", p.name, ms(w[0]), ms(w[len(w)/2]), ms(w[len(w)-1]), p.peak/1e6)
	}
	if len(programs) == 2 {
		a, b := programs[0], programs[1]
		fmt.Printf("ratio of medians %.1f, of peaks %.1f\n", ms(b.wall[1:][runs/2])/ms(a.wall[1:][runs/2]), float64(b.peak)/float64(a.peak))
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// install builds the peer into dir.
func install(ctx context.Context, dir string) (string, error) {
	cargo, err := exec.LookPath("cargo")
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, cargo, "install", "--quiet", "--locked", "--root", dir, "--version", peerVersion, "kernel-abi-check")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("cargo install kernel-abi-check: %w", err)
	}
	return filepath.Join(dir, "bin", "kernel-abi-check"), nil
}
