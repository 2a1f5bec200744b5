package matrix

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/thox-ai/thoxbuild/manifests"
)

func TestRequiredNames(t *testing.T) {
	var want []string
	for _, torch := range []string{"torch212", "torch213"} {
		for _, p := range []string{"cxx11-cpu-x86_64-linux", "cxx11-cu126-x86_64-linux", "cxx11-cu130-x86_64-linux", "cxx11-cu132-x86_64-linux",
			"cxx11-rocm71-x86_64-linux", "cxx11-rocm72-x86_64-linux",
			"cxx11-cpu-aarch64-linux", "cxx11-cu126-aarch64-linux", "cxx11-cu130-aarch64-linux", "cxx11-cu132-aarch64-linux",
			"cpu-aarch64-darwin", "metal-aarch64-darwin"} {
			want = append(want, torch+"-"+p)
		}
	}
	want = append(want, "torch212-cxx11-xpu20253-x86_64-linux", "torch213-cxx11-xpu20260-x86_64-linux")
	slices.Sort(want)
	if len(want) != 26 {
		t.Fatal("the test is wrong")
	}
	if diff := cmp.Diff(want, Default().RequiredNames()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCatalogueRowsNameTheirSource(t *testing.T) {
	for _, r := range Default().Rows {
		if r.Source.What == "" || len(r.Source.Date) != len("2026-08-20") {
			t.Errorf("%s: source %+v", r.Name(), r.Source)
		}
	}
	want := []manifests.Version{{Major: 2, Minor: 11}, {Major: 2, Minor: 12}, {Major: 2, Minor: 13}, {Major: 2, Minor: 14}, {Major: 2, Minor: 15}}
	if diff := cmp.Diff(want, Default().Torches()); diff != "" {
		t.Error(diff)
	}
}

func TestBadCatalogues(t *testing.T) {
	row := "[source.a]\nwhat = \"x\"\ndate = 2026-01-01\n[[row]]\ntorch = \"2.13\"\nbackend = \"cpu\"\nplatforms = [\"x86_64-linux\"]\nstatus = \"extra\"\nsource = \"a\"\n"
	if _, err := parseCatalogue(row); err != nil {
		t.Fatal(err)
	}
	for edit, want := range map[string]string{
		`source = "a" -> source = "b"`:                     `unknown source "b"`,
		`"extra" -> "maybe"`:                               `unknown status "maybe"`,
		`x86_64-linux -> x86_64`:                           "linux, darwin or windows",
		`"2.13" -> "2.13.1"`:                               "two components",
		`status -> color = 1` + "\nstatus":                 "unknown key",
		`"x86_64-linux" -> "x86_64-linux", "x86_64-linux"`: "two rows are named",
	} {
		old, replacement, _ := strings.Cut(edit, " -> ")
		if _, err := parseCatalogue(strings.Replace(row, old, replacement, 1)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", edit, err, want)
		}
	}
}
