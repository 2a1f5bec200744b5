package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var ranLine = regexp.MustCompile(`(?m)^\[\d+/\d+\] (.*) \([0-9.]+s\)$`)

// edit changes one line of the AVX2 unit in a copy of the workspace and says
// which actions run: first a comment, which changes no code, then a number.
func edit(ctx context.Context, tmp string) error {
	copied := filepath.Join(tmp, "workspace")
	kernel := filepath.Join("kernels-src", "thox-edge-ops")
	if err := os.CopyFS(filepath.Join(copied, kernel), os.DirFS(filepath.Join(*dir, kernel))); err != nil {
		return err
	}
	for _, name := range []string{"build.toml", "toolchain.lock"} {
		b, err := os.ReadFile(filepath.Join(*dir, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(copied, name), b, 0o644); err != nil {
			return err
		}
	}
	*dir = copied
	at := filepath.Join(tmp, "store")
	if err := emptyCache(at); err != nil {
		return err
	}
	out := filepath.Join(tmp, "out")
	chosen := globs("torch2*-cxx11-cpu-*-linux")
	s, sum, err := build(ctx, at, out, chosen...)
	if err != nil {
		return err
	}
	fmt.Printf("%d variants, %d actions: %.1f s of processor time\n", len(sum.Variants), sum.ActionsRun, s.cpu.Seconds())
	unit := filepath.Join(copied, kernel, "cpu", "rows_avx2.cpp")
	text, err := os.ReadFile(unit)
	if err != nil {
		return err
	}
	for _, c := range []struct{ what, line string }{
		{"a comment at the end of cpu/rows_avx2.cpp", "\n// Edited.\n"},
		{"a function at the end of cpu/rows_avx2.cpp", "\n#if defined(__AVX2__)\nnamespace { [[gnu::used]] int edited() { return 7; } }\n#endif\n"},
	} {
		if err := os.WriteFile(unit, append(slices.Clone(text), c.line...), 0o644); err != nil {
			return err
		}
		s, again, err := build(ctx, at, out, chosen...)
		if err != nil {
			return err
		}
		fmt.Printf("\n%s: %d of %d actions ran, %.1f s of processor time\n", c.what, again.ActionsRun, again.ActionsRun+again.ActionsCached, s.cpu.Seconds())
		kinds := map[string]int{}
		for _, m := range ranLine.FindAllStringSubmatch(string(s.stderr), -1) {
			label := m[1]
			for _, v := range again.Variants {
				label = strings.ReplaceAll(label, v.Variant, "VARIANT")
			}
			kinds[label]++
		}
		for _, label := range slices.Sorted(mapsKeys(kinds)) {
			fmt.Printf("  %2d x %s\n", kinds[label], label)
		}
		rewritten := 0
		for _, v := range again.Variants {
			if !v.Cached {
				rewritten++
			}
		}
		fmt.Printf("  %d of %d variant folders are new\n", rewritten, len(again.Variants))
	}
	return nil
}

func mapsKeys(m map[string]int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
