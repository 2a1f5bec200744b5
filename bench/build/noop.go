package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// noop builds every variant once, then again with nothing to do, against ninja
// with the same number of edges in chains of the same kind (objects, a link).
// ninja looks at times only; thoxbuild also knows that each folder holds
// what it should.
func noop(ctx context.Context, tmp string) error {
	out := filepath.Join(tmp, "out")
	_, sum, err := build(ctx, *store, out, globs("")...)
	if err != nil {
		return err
	}
	edges := sum.ActionsRun + sum.ActionsCached
	peer := filepath.Join(tmp, "ninja")
	ninja, err := exec.LookPath("ninja")
	if err != nil {
		fmt.Fprintln(os.Stderr, "no ninja on PATH: it is left out")
	} else if err := ninjaFiles(peer, edges, len(sum.Variants)); err != nil {
		return err
	} else if _, err := measure(ctx, peer, nil, ninja); err != nil {
		return err
	}
	var ours, theirs []sample
	for range max(*pairs, 10) {
		s, again, err := build(ctx, *store, out, globs("")...)
		if err != nil {
			return err
		}
		if again.ActionsRun > 0 {
			return fmt.Errorf("%d actions ran in a build with nothing to do", again.ActionsRun)
		}
		ours = append(ours, s)
		if ninja == "" {
			continue
		}
		if s, err = measure(ctx, peer, nil, ninja); err != nil {
			return err
		}
		theirs = append(theirs, s)
	}
	fmt.Printf("nothing to do for %d variants, %d actions (target: 150 ms, 50 MB)\n", len(sum.Variants), edges)
	if ninja == "" {
		show("thoxbuild build", ours)
		return nil
	}
	compare("thoxbuild build", fmt.Sprintf("ninja, %d edges", edges), ours, theirs)
	return nil
}

// ninjaFiles writes a build file in which each variant links its share of the
// edges.
func ninjaFiles(at string, edges, links int) error {
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("rule cc\n  command = cp $in $out\nrule link\n  command = cat $in > $out\n")
	per := max(1, edges/max(1, links)-1)
	for l := range links {
		var objects []string
		for i := range per {
			name := fmt.Sprintf("s%d_%d", l, i)
			if err := os.WriteFile(filepath.Join(at, name+".c"), []byte(name), 0o644); err != nil {
				return err
			}
			fmt.Fprintf(&b, "build %s.o: cc %s.c\n", name, name)
			objects = append(objects, name+".o")
		}
		fmt.Fprintf(&b, "build lib%d.so: link %s\n", l, strings.Join(objects, " "))
	}
	return os.WriteFile(filepath.Join(at, "build.ninja"), []byte(b.String()), 0o644)
}
