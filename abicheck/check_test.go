package abicheck_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/thox-ai/thoxbuild/abicheck"
	"github.com/thox-ai/thoxbuild/abicheck/elffile/elftest"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
	"github.com/thox-ai/thoxbuild/manifests"
)

// library needs a newer C library than manylinux_2_28 has, and nothing else is
// wrong with it.
func library() []byte {
	return elftest.Library{
		Needed: []string{"libc.so.6"}, BuildID: []byte{1},
		Symbols: []elftest.Symbol{
			{Name: "PyInit__k", Defined: true},
			{Name: "pthread_create", Version: "GLIBC_2.34", Library: "libc.so.6"},
		},
	}.Bytes()
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// check runs the facts rules and lists "ID member" of each finding.
func check(t *testing.T, o abicheck.Options, paths ...string) []string {
	t.Helper()
	o.FactsOnly = true
	r, err := abicheck.Check(t.Context(), paths, &o)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range r.Findings {
		got = append(got, strings.TrimSpace(f.ID+" "+f.Member))
	}
	return got
}

func archive(members map[string][]byte) []byte {
	b := []byte("!<arch>\n")
	add := func(name string, data []byte) {
		b = fmt.Appendf(b, "%-16s%-12d%-6d%-6d%-8d%-10d`\n", name, 0, 0, 0, 644, len(data))
		b = append(b, data...)
		if len(data)%2 == 1 {
			b = append(b, '\n')
		}
	}
	var names []string
	for n := range members {
		names = append(names, n)
	}
	slices.Sort(names)
	var long []byte
	at := map[string]int{}
	for _, n := range names {
		if len(n) > 15 {
			at[n] = len(long)
			long = append(long, n+"/\n"...)
		}
	}
	if long != nil {
		add("//", long)
	}
	for _, n := range names {
		if len(n) > 15 {
			add(fmt.Sprintf("/%d", at[n]), members[n])
		} else {
			add(n+"/", members[n])
		}
	}
	return b
}

func zipped(t *testing.T, method uint16, members map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for n, data := range members {
		f, err := w.CreateHeader(&zip.FileHeader{Name: n, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// That nothing can be unpacked here is no fault of the wheel.
func TestNowhereToUnpack(t *testing.T) {
	dir := t.TempDir()
	big := append(library(), make([]byte, 3<<20)...)
	name := filepath.Join(dir, "k-1-cp39-abi3-manylinux_2_28_x86_64.whl")
	if err := os.WriteFile(name, zipped(t, zip.Deflate, map[string][]byte{"k/_k.abi3.so": big}), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", filepath.Join(dir, "missing"))
	r, err := abicheck.Check(t.Context(), []string{name}, nil)
	if err == nil || !strings.Contains(err.Error(), "k/_k.abi3.so") || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("%v, %v; expected an error that names the member and TMPDIR", r, err)
	}
}

func TestInputs(t *testing.T) {
	dir := t.TempDir()
	lib := library()
	big := append(bytes.Clone(lib), make([]byte, 3<<20)...) // goes through a temporary file
	const long = "a_member_with_a_long_name.so"
	tests := []struct {
		name string
		data []byte
		want []string
	}{
		{"_k.abi3.so", lib, []string{"MANYLINUX"}},
		{"_k.abi3.so.1", lib, []string{"MANYLINUX"}},
		{"no_suffix_at_all", lib, []string{"MANYLINUX"}},
		{"lib.a", archive(map[string][]byte{"short.so": lib, long: lib}), []string{"MANYLINUX " + long, "MANYLINUX short.so"}},
		{"k-1-cp39-abi3-manylinux_2_28_x86_64.whl", zipped(t, zip.Deflate, map[string][]byte{"k/_k.abi3.so": lib, "k/x.py": []byte("x")}), []string{"MANYLINUX k/_k.abi3.so"}},
		{"k-2-cp39-abi3-manylinux_2_28_x86_64.whl", zipped(t, zip.Store, map[string][]byte{"k/_k.abi3.so": lib}), []string{"MANYLINUX k/_k.abi3.so"}},
		{"k-3-cp39-abi3-manylinux_2_28_x86_64.whl", zipped(t, zip.Deflate, map[string][]byte{"k/_k.abi3.so": big}), []string{"MANYLINUX k/_k.abi3.so"}},
		{"k-4-cp39-abi3-manylinux_2_34_x86_64.whl", zipped(t, zip.Deflate, map[string][]byte{"k/_k.abi3.so": lib}), nil},
		{"k-5-cp39-abi3-linux_x86_64.whl", zipped(t, zip.Deflate, map[string][]byte{"k/_k.abi3.so": lib}), nil},
		{"k-6-cp39-abi3-manylinux_2_34_x86_64.manylinux_2_28_x86_64.whl", zipped(t, zip.Deflate, map[string][]byte{"k/_k.abi3.so": lib}), []string{"MANYLINUX k/_k.abi3.so"}},
		{"cut.so", lib[:100], []string{"FORMAT"}},
		{"cut.whl", zipped(t, zip.Deflate, map[string][]byte{"a.so": lib})[:80], []string{"FORMAT"}},
		{"cut.a", archive(map[string][]byte{"a.so": lib})[:200], []string{"FORMAT"}},
		{"thin.a", []byte("!<thin>\n"), []string{"FORMAT"}},
		{"broken.dll", []byte("MZ and nothing else"), []string{"FORMAT"}},
		{"broken.dylib", []byte("\xcf\xfa\xed\xfe short"), []string{"FORMAT"}},
		{"broken_fat", binary.BigEndian.AppendUint32([]byte("\xca\xfe\xba\xbe"), 2), []string{"FORMAT"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := check(t, abicheck.Options{}, write(t, filepath.Join(dir, tt.name), tt.data))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("findings (-want +got)\n%s", diff)
			}
		})
	}
}

func TestNothingToCheck(t *testing.T) {
	name := write(t, filepath.Join(t.TempDir(), "x.so"), []byte("INPUT(libx.so.1)\n"))
	if _, err := abicheck.Check(t.Context(), []string{name}, nil); err == nil {
		t.Error("a linker script was checked")
	}
	if _, err := abicheck.Check(t.Context(), []string{name + ".gone"}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
}

func TestZipBomb(t *testing.T) {
	b := zipped(t, zip.Deflate, map[string][]byte{"a.so": append(library(), make([]byte, 1<<16)...)})
	// The central directory claims a size that deflate cannot have reached.
	at := bytes.LastIndex(b, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(b[at+24:], 0xfffffff0)
	got := check(t, abicheck.Options{}, write(t, filepath.Join(t.TempDir(), "bomb.whl"), b))
	if diff := cmp.Diff([]string{"FORMAT a.so"}, got); diff != "" {
		t.Errorf("findings (-want +got)\n%s", diff)
	}
}

// TestVariant checks a variant folder: the policy comes from its name, and the
// metadata must fit.
func TestVariant(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "build", "torch213-cxx11-cpu-x86_64-linux")
	write(t, filepath.Join(dir, "_k.abi3.so"), library())
	meta := []byte(`{"name":"k","id":"_k","version":1,"license":"MIT","python-depends":[],"backend":{"type":"cpu"}}`)
	write(t, filepath.Join(dir, manifests.MetadataFile), meta)
	want := []string{"META", "MANYLINUX"} // no digest: a note
	if diff := cmp.Diff(want, check(t, abicheck.Options{}, root)); diff != "" {
		t.Errorf("findings (-want +got)\n%s", diff)
	}
	write(t, filepath.Join(dir, manifests.MetadataFile), bytes.Replace(meta, []byte(`"_k"`), []byte(`"_other"`), 1))
	r, err := abicheck.Check(t.Context(), []string{root}, &abicheck.Options{Only: []string{"META"}})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Failed() {
		t.Errorf("a module under another name passed: %+v", r.Findings)
	}
	write(t, filepath.Join(dir, manifests.MetadataFile), []byte(`{`))
	if got := check(t, abicheck.Options{Only: []string{"META"}}, root); len(got) != 1 {
		t.Errorf("metadata that cannot be read gave %v", got)
	}
}

func TestInstalledPackage(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "k", "_k.abi3.so"), library())
	if got := check(t, abicheck.Options{}, root); len(got) != 1 {
		t.Fatalf("without claims: %v", got)
	}
	write(t, filepath.Join(root, "k-1.dist-info", "WHEEL"), []byte("Wheel-Version: 1.0\nTag: cp39-abi3-manylinux_2_34_x86_64\n"))
	write(t, filepath.Join(root, "k-1.dist-info", "RECORD"), []byte("k/_k.abi3.so,sha256=x,1\n"))
	if got := check(t, abicheck.Options{}, root); len(got) != 0 {
		t.Errorf("with the claims of its wheel: %v", got)
	}
}

func TestCancelled(t *testing.T) {
	name := write(t, filepath.Join(t.TempDir(), "a.so"), library())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := abicheck.Check(ctx, []string{name}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestSuppressions(t *testing.T) {
	name := write(t, filepath.Join(t.TempDir(), "_k.abi3.so"), library())
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		name, toml string
		want       []string
		suppressed int
	}{
		{"covers", `id = "MANYLINUX"` + "\n" + `file = "*.abi3.so"` + "\n" + `symbol = "pthread_*"` + "\n" + `reason = "old cluster"`, nil, 1},
		{"not yet expired", `id = "MANYLINUX"` + "\n" + `reason = "x"` + "\n" + `expires = 2026-12-02`, nil, 1},
		{"expired", `id = "MANYLINUX"` + "\n" + `reason = "x"` + "\n" + `expires = 2026-12-01`, []string{"MANYLINUX", "SUPPRESSION"}, 0},
		{"another symbol", `id = "MANYLINUX"` + "\n" + `symbol = "malloc"` + "\n" + `reason = "x"`, []string{"MANYLINUX", "SUPPRESSION"}, 0},
		{"a rule that is left out", `id = "ISA-LOAD"` + "\n" + `reason = "x"`, []string{"MANYLINUX"}, 0},
		{"another file", `id = "MANYLINUX"` + "\n" + `file = "*.so.1"` + "\n" + `reason = "x"`, []string{"MANYLINUX", "SUPPRESSION"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := rule.ParseSuppressions([]byte("[[suppress]]\n"+tt.toml), abicheck.Known)
			if err != nil {
				t.Fatal(err)
			}
			r, err := abicheck.Check(t.Context(), []string{name}, &abicheck.Options{Suppressions: s, Now: now, FactsOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range r.Findings {
				got = append(got, f.ID)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("findings (-want +got)\n%s", diff)
			}
			if len(r.Suppressed) != tt.suppressed {
				t.Errorf("%d suppressed, want %d", len(r.Suppressed), tt.suppressed)
			}
		})
	}
	for _, bad := range []string{`id = "MANYLINUX"`, `id = "NOSUCH"` + "\n" + `reason = "x"`, `id = "RPATH"` + "\nreason = 'x'\nexpries = 2026-01-01", `id = "RPATH"` + "\nreason = 'x'\nfile = '['", `id = "RPATH"` + "\nreason = 'x'\nexpires = 'soon'"} {
		if _, err := rule.ParseSuppressions([]byte("[[suppress]]\n"+bad), abicheck.Known); err == nil {
			t.Errorf("accepted:\n%s", bad)
		}
	}
}

// TestRules holds what users and other tools rely on: ids are unique, and
// every rule can be explained.
func TestRules(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range abicheck.Rules() {
		if seen[r.ID] {
			t.Errorf("two rules have the id %s", r.ID)
		}
		seen[r.ID] = true
		if r.ID != strings.ToUpper(r.ID) || r.Title == "" || strings.HasSuffix(r.Title, ".") || len(r.Explain) < 100 {
			t.Errorf("%s: title %q, %d bytes of explanation", r.ID, r.Title, len(r.Explain))
		}
		if _, err := abicheck.Explain(strings.ToLower(r.ID)); err != nil {
			t.Error(err)
		}
	}
	if _, err := abicheck.Explain("MANYLINX"); err == nil || !strings.Contains(err.Error(), "did you mean MANYLINUX") {
		t.Errorf("no hint: %v", err)
	}
}
