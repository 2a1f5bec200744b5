package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/thox-ai/thoxbuild/compile"
	"github.com/thox-ai/thoxbuild/manifests"
)

// matrixRuns builds the chosen variants in one command with an empty cache,
// and then each on its own with an empty cache of its own, as tools do that
// know one variant at a time. For all variants it then adds up what each
// action took in the store's last build: with -variant, the two ways can be
// compared for the same ones.
func matrixRuns(ctx context.Context, tmp string) error {
	var ours, theirs []sample
	var names []string
	for i := range *pairs {
		at := filepath.Join(tmp, fmt.Sprint(i))
		if err := emptyCache(filepath.Join(at, "all")); err != nil {
			return err
		}
		s, sum, err := build(ctx, filepath.Join(at, "all"), filepath.Join(at, "out"), globs("torch2*-cxx11-cpu-*-linux")...)
		if err != nil {
			return err
		}
		ours = append(ours, s)
		if i == 0 {
			names = nil
			for _, v := range sum.Variants {
				names = append(names, v.Variant)
			}
			if err := estimate("the same by adding up actions", filepath.Join(at, "all"), names); err != nil {
				return err
			}
		}
		total := sample{}
		for _, name := range names {
			if err := emptyCache(filepath.Join(at, name)); err != nil {
				return err
			}
			s, _, err := build(ctx, filepath.Join(at, name), filepath.Join(at, "out-"+name), "--variant", name)
			if err != nil {
				return err
			}
			total = total.add(s)
		}
		theirs = append(theirs, total)
		fmt.Fprintf(os.Stderr, "pair %d: %.1f and %.1f s of processor time\n", i+1, s.cpu.Seconds(), total.cpu.Seconds())
		if err := os.RemoveAll(at); err != nil {
			return err
		}
	}
	fmt.Printf("%d variants, every cache empty\n", len(names))
	compare("one build", "each variant on its own", ours, theirs)
	return estimate("all variants of the store's last build, by adding up actions", *store, nil)
}

// estimate adds the processor seconds of each action of the last build: once,
// and once for each variant that needs it.
func estimate(what, storeDir string, names []string) error {
	p, err := manifests.Load(*dir)
	if err != nil {
		return err
	}
	for _, k := range p.Kernels {
		h := compile.OpenHistory(filepath.Join(storeDir, "cache"), k.Dir)
		if names == nil {
			names = h.Variants()
		}
		once, each := map[string]float64{}, 0.0
		for _, n := range names {
			for _, part := range h.Parts(n) {
				once[part.Name] = part.Seconds
				each += part.Seconds
			}
		}
		sum := 0.0
		for _, s := range once {
			sum += s
		}
		if sum == 0 {
			fmt.Printf("%s: the store knows no build of %s\n", what, k.Dir)
			continue
		}
		fmt.Printf("%s: %d variants, %d actions: %.0f s in one build, %.0f s each on its own, %.2fx\n", what, len(names), len(once), sum, each, each/sum)
	}
	return nil
}
