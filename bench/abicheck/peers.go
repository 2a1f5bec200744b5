package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/thox-ai/thoxbuild/abicheck"
	"github.com/thox-ai/thoxbuild/manifests"
)

// peerPackages are the peers of the table, from the package index.
var peerPackages = []string{"auditwheel==6.8.2", "kernel-abi-check==" + peerVersion, "abi3audit==0.0.26", "checksec-py==0.7.5"}

// columns are what judges a library: abicheck before and after the link of known
// objects, abicheck on the finished file alone, and the peers.
var columns = []string{"abicheck", "abicheck, file only", "auditwheel", "kernel-abi-check", "abi3audit", "checksec"}

// peersTable builds the corpus, lets everybody judge it and prints for each
// rule in how many of its samples who found it.
func peersTable(ctx context.Context, python string) error {
	dir, err := os.MkdirTemp("", "bench-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if python == "" {
		if python, err = installPeers(ctx, filepath.Join(dir, "venv")); err != nil {
			return err
		}
	}
	said := map[string]map[string][]string{} // library -> column -> rules
	libs := make([]string, len(corpus))
	floor := manifests.MustVersion("2.10")
	for i := range corpus {
		s := &corpus[i]
		lib, objects, err := s.build(ctx, filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			return err
		}
		libs[i], said[lib] = lib, map[string][]string{}
		opts := &abicheck.Options{Manylinux: "manylinux_2_28", PythonABI: manifests.MustVersion("3.9"), StableABI: &floor}
		before, err := abicheck.CheckObjects(ctx, objects, opts)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		after, err := abicheck.CheckLibrary(ctx, objects, lib, opts)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		alone, err := abicheck.Check(ctx, []string{lib}, opts)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		said[lib][columns[0]], said[lib][columns[1]] = broken(before, after), broken(alone)
	}
	cmd := exec.CommandContext(ctx, python, append([]string{filepath.Join("bench", "abicheck", "peers.py")}, libs...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("peers.py: %w", err)
	}
	var peers map[string]map[string][]string
	if err := json.Unmarshal(out, &peers); err != nil {
		return fmt.Errorf("peers.py: %w", err)
	}
	for lib, m := range peers {
		for name, rules := range m {
			said[lib][name] = rules
		}
	}
	printPeers(libs, said)
	return nil
}

// broken are the rules of the warnings and errors of reports.
func broken(reports ...*abicheck.Report) []string {
	var out []string
	for _, r := range reports {
		for _, f := range r.Findings {
			if f.Severity >= abicheck.Warning && !slices.Contains(out, f.ID) {
				out = append(out, f.ID)
			}
		}
	}
	return out
}

func printPeers(libs []string, said map[string]map[string][]string) {
	fmt.Printf("%d libraries; %s\n\n", len(corpus), strings.Join(peerPackages, ", "))
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "sample\trules\t"+strings.Join(columns, "\t"))
	found, of := map[string]map[string]int{}, map[string]int{}
	noise := map[string][]string{}
	for i := range corpus {
		s := &corpus[i]
		row := []string{s.name, strings.Join(s.rules, " ")}
		for _, c := range columns {
			var hits []string
			for _, id := range s.rules {
				if slices.Contains(said[libs[i]][c], id) {
					hits = append(hits, id)
					if found[id] == nil {
						found[id] = map[string]int{}
					}
					found[id][c]++
				}
			}
			switch {
			case len(s.rules) == 0 && len(said[libs[i]][c]) == 0:
				row = append(row, "ok")
			case len(s.rules) == 0:
				row = append(row, "false: "+strings.Join(said[libs[i]][c], " "))
				noise[c] = append(noise[c], s.name)
			case len(hits) == len(s.rules):
				row = append(row, "found")
			case len(hits) > 0:
				row = append(row, strings.Join(hits, " "))
			default:
				row = append(row, "-")
			}
		}
		for _, id := range s.rules {
			of[id]++
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	fmt.Fprintln(w, "\nrule\tsamples\t"+strings.Join(columns, "\t"))
	var ids []string
	for id := range of {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		row := []string{id, fmt.Sprint(of[id])}
		for _, c := range columns {
			row = append(row, fmt.Sprint(found[id][c]))
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
}

// installPeers makes a virtual environment with the peers.
func installPeers(ctx context.Context, dir string) (string, error) {
	python := filepath.Join(dir, "bin", "python")
	for _, argv := range [][]string{
		{"python3", "-m", "venv", dir},
		append([]string{python, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--disable-pip-version-check"}, peerPackages...),
	} {
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
		}
	}
	return python, nil
}
