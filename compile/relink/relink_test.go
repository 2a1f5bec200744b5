package relink

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unit has what makes an ISA unit dangerous: an inline function with a static,
// which lands in COMDAT groups, beside its entry.
const unit = `
template <class T> struct Box { static T value; };
template <class T> T Box<T>::value = 40;
inline int helper(int x) { static int calls; return x + ++calls; }
int outside(int);
static int own(int x) { return x * 3; }
__attribute__((noinline)) int loud(int x) { return helper(x) + own(x); }
extern "C" int thox_entry(int x) { return loud(x) + outside(x) + Box<int>::value; }
int (*table[])(int) = {helper, loud, own};
`

// compiler finds a C++ compiler; building kernels needs g++ anyway.
func compiler(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"g++", "clang++"} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	t.Skip("no g++ or clang++ to make an object with")
	return ""
}

func build(t testing.TB, source string, flags ...string) []byte {
	t.Helper()
	dir := t.TempDir()
	in, out := filepath.Join(dir, "u.cpp"), filepath.Join(dir, "u.o")
	if err := os.WriteFile(in, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(compiler(t), append(flags, "-O0", "-fPIC", "-c", in, "-o", out)...)
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, msg)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func symbols(t testing.TB, b []byte) (*elf.File, []elf.Symbol) {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	syms, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	return f, syms
}

func TestIsolate(t *testing.T) {
	before := build(t, unit)
	after, err := Isolate(before, []string{"thox_entry"})
	if err != nil {
		t.Fatal(err)
	}
	f, syms := symbols(t, after)
	var visible []string
	for _, s := range syms {
		if s.Section != elf.SHN_UNDEF && elf.ST_BIND(s.Info) != elf.STB_LOCAL {
			visible = append(visible, s.Name)
		}
	}
	if !slices.Equal(visible, []string{"thox_entry"}) {
		t.Errorf("defined and not local: %q", visible)
	}
	_, old := symbols(t, before)
	if !sameRelocations(t, before, after, old, syms) {
		t.Error("relocations mean something else")
	}
	for _, s := range f.Sections {
		if s.Type != elf.SHT_GROUP {
			continue
		}
		data, err := s.Data()
		if err != nil || le.Uint32(data)&grpComdat != 0 {
			t.Errorf("group %s is still a COMDAT group (%v)", s.Name, err)
		}
	}
}

// sameRelocations compares what each relocation names, by name.
func sameRelocations(t *testing.T, before, after []byte, old, new []elf.Symbol) bool {
	t.Helper()
	targets := func(b []byte, syms []elf.Symbol) (out []string) {
		f, err := elf.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range f.Sections {
			if s.Type != elf.SHT_RELA {
				continue
			}
			data, err := s.Data()
			if err != nil {
				t.Fatal(err)
			}
			for ; len(data) >= relaSize; data = data[relaSize:] {
				sym := syms[le.Uint32(data[12:])-1]
				out = append(out, s.Name+" "+sym.Name+" "+sym.Section.String())
			}
		}
		return out
	}
	return slices.Equal(targets(before, old), targets(after, new))
}

// The isolated unit links and runs, and keeps its own copy of what another
// unit defines under the same name.
func TestIsolatedUnitRuns(t *testing.T) {
	isolated, err := Isolate(build(t, unit), []string{"thox_entry"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := map[string][]byte{
		"wide.o": isolated,
		"main.cpp": []byte(`
extern "C" int thox_entry(int);
inline int helper(int) { return 1000; }  // another function of that name
int outside(int x) { return helper(x); }
int main() { return thox_entry(1) == (1 + 1) + 3 + 1000 + 40 ? 0 : 1; }
`),
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(compiler(t), "-O0", "wide.o", "main.cpp", "-o", "main")
	cmd.Dir = dir
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, msg)
	}
	if err := exec.Command(filepath.Join(dir, "main")).Run(); err != nil {
		t.Error("the unit used the other function of its helper's name")
	}
}

func TestIsolateRefuses(t *testing.T) {
	good := build(t, unit)
	shared := slices.Clone(good)
	shared[16] = byte(elf.ET_DYN)
	for want, c := range map[string]struct {
		b       []byte
		entries []string
	}{
		`"thox_entri" is not defined; the unit defines`: {good, []string{"thox_entri"}},
		`"_Z7outsidei" is not defined`:                  {good, []string{"_Z7outsidei"}},
		"relocatable ELF object":                        {shared, []string{"thox_entry"}},
		"relocatable ELF object ":                       {[]byte("!<arch>\n"), nil},
		"damaged section headers":                       {good[:ehdrSize], nil},
		"behind the file":                               {good[:len(good)-70], nil},
		"common":                                        {build(t, "int tentative;", "-x", "c", "-fcommon"), nil},
	} {
		if _, err := Isolate(c.b, c.entries); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// A damaged object is refused or gives an object of the same size; it is never
// read outside its bounds.
func FuzzIsolate(f *testing.F) {
	f.Add(build(f, unit), 60, byte(0))
	f.Add(build(f, "int f() { return 1; }"), 100, byte(255))
	f.Fuzz(func(t *testing.T, b []byte, at int, v byte) {
		if at >= 0 && at < len(b) {
			b = slices.Clone(b)
			b[at] = v
		}
		before := slices.Clone(b)
		out, err := Isolate(b, []string{"thox_entry"})
		if !bytes.Equal(b, before) {
			t.Error("the input was changed")
		}
		if err == nil && len(out) != len(b) {
			t.Errorf("%d bytes became %d", len(b), len(out))
		}
	})
}
