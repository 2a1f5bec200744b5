package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// peerScript builds the same sources with torch.utils.cpp_extension. It has no
// flags per file, so the units above the baseline are compiled beside it and
// linked as objects.
//
//go:embed peer.py
var peerScript []byte

// cold starts with nothing: no store, no environment. Both fetch what they
// need from the package index and end with the library of one CPU variant.
//
// Nothing is removed before all pairs have run (8 GB each), and each contender
// starts with a quiet disk: ext4 makes files slowly for minutes after as many
// were deleted, and a sync waits for what others have written.
func cold(ctx context.Context, tmp string) error {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	variant := "torch213-cxx11-cpu-" + arch + "-linux"
	script := filepath.Join(tmp, "peer.py")
	if err := os.WriteFile(script, peerScript, 0o644); err != nil {
		return err
	}
	var ours, theirs []sample
	for i := range *pairs {
		at := filepath.Join(tmp, fmt.Sprint(i))
		syscall.Sync()
		s, sum, err := build(ctx, filepath.Join(at, "store"), filepath.Join(at, "out"), globs(variant)...)
		if err != nil {
			return err
		}
		if sum.ActionsCached > 0 {
			return fmt.Errorf("%d actions came from a cache that was to be empty", sum.ActionsCached)
		}
		ours = append(ours, s)
		syscall.Sync()
		venv := filepath.Join(at, "venv")
		total := sample{}
		for _, args := range [][]string{
			{*python, "-m", "venv", venv},
			{filepath.Join(venv, "bin", "pip"), "install", "--quiet", "--no-cache-dir", "--disable-pip-version-check", *torch, "ninja", "setuptools"},
			{filepath.Join(venv, "bin", "python"), script, *dir, filepath.Join(at, "peer")},
		} {
			s, err := measure(ctx, at, []string{"PATH=" + filepath.Join(venv, "bin") + ":" + os.Getenv("PATH"), "MAX_JOBS=" + fmt.Sprint(runtime.NumCPU())}, args...)
			if err != nil {
				return err
			}
			fmt.Fprintf(os.Stderr, "peer: %s: %.1f s\n", filepath.Base(args[0])+" "+filepath.Base(args[len(args)-1]), s.wall.Seconds())
			total = total.add(s)
		}
		theirs = append(theirs, total)
		fmt.Fprintf(os.Stderr, "pair %d: %.1f s, peer %.1f s\n", i+1, s.wall.Seconds(), total.wall.Seconds())
	}
	fmt.Printf("cold build of %s, everything fetched\n", variant)
	compare("thoxbuild build", "pip install "+*torch+" + cpp_extension", ours, theirs)
	return nil
}
