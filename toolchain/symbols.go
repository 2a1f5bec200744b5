package toolchain

import (
	"bytes"
	"cmp"
	"debug/elf"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// stubSymbol is a symbol that a stub library offers.
type stubSymbol struct {
	Name    string
	Version string // "GLIBCXX_3.4.21"
	Object  bool   // data, not a function
	Size    uint64
	TLS     bool
}

// versionLimits are the newest symbol versions that manylinux_2_28 allows, by
// the family's name. A family that is not listed offers nothing.
var versionLimits = map[string]string{
	"GLIBCXX": "3.4.24",
	"CXXABI":  "1.3.11",
	"GCC":     "7.0.0",
}

// allowedVersion reports whether a version such as GLIBCXX_3.4.21 is within
// the limits. Versions whose tail is no number (CXXABI_TM_1) are left out:
// nothing that a kernel uses needs them.
func allowedVersion(v string) bool {
	family, number, ok := strings.Cut(v, "_")
	limit, known := versionLimits[family]
	if !ok || !known {
		return false
	}
	c, err := compareDotted(number, limit)
	return err == nil && c <= 0
}

func compareDotted(a, b string) (int, error) {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		var n [2]int
		for j, parts := range [][]string{as, bs} {
			if i < len(parts) {
				v, err := strconv.Atoi(parts[i])
				if err != nil {
					return 0, err
				}
				n[j] = v
			}
		}
		if c := cmp.Compare(n[0], n[1]); c != 0 {
			return c, nil
		}
	}
	return 0, nil
}

// offeredSymbols lists what a real library defines at its default versions
// within the limits. A symbol whose default version is newer is left out even
// where an older one exists under the same name: the archive serves it then.
func offeredSymbols(path string) (soname string, out []stubSymbol, err error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	names, err := f.DynString(elf.DT_SONAME)
	if err != nil || len(names) != 1 {
		return "", nil, fmt.Errorf("%s: no soname", path)
	}
	syms, err := f.DynamicSymbols()
	if err != nil {
		return "", nil, err
	}
	for _, s := range syms {
		bind := elf.ST_BIND(s.Info)
		if s.Section == elf.SHN_UNDEF || s.Section == elf.SHN_ABS || bind == elf.STB_LOCAL ||
			!s.HasVersion || s.VersionIndex.IsHidden() || !allowedVersion(s.Version) {
			continue
		}
		t := elf.ST_TYPE(s.Info)
		out = append(out, stubSymbol{s.Name, s.Version, t == elf.STT_OBJECT, s.Size, t == elf.STT_TLS})
	}
	slices.SortFunc(out, func(a, b stubSymbol) int {
		return cmp.Or(strings.Compare(a.Version, b.Version), strings.Compare(a.Name, b.Name))
	})
	return names[0], out, nil
}

// stubSource writes the assembly and the version script of a stub library.
func stubSource(syms []stubSymbol) (asm, script []byte) {
	var a, v bytes.Buffer
	a.WriteString("\t.section .note.GNU-stack,\"\",%progbits\n")
	versions := map[string]bool{}
	for i, s := range syms {
		versions[s.Version] = true
		kind, section := "%function", ".text"
		switch {
		case s.TLS:
			kind, section = "%tls_object", ".section .tdata,\"awT\",%progbits"
		case s.Object:
			kind, section = "%object", ".data"
		}
		// The three @ rename the symbol, so that s<i> itself is not exported.
		fmt.Fprintf(&a, "\t%s\n\t.globl s%d\n\t.type s%d,%s\n\t.size s%d,%d\ns%d:\n\t.byte 0\n\t.symver s%d,%q\n",
			section, i, i, kind, i, s.Size, i, i, s.Name+"@@@"+s.Version)
	}
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		fmt.Fprintf(&v, "%s { };\n", name)
	}
	return a.Bytes(), v.Bytes()
}
