package facts

import (
	"context"
	"debug/elf"
	"fmt"
	"slices"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
	"github.com/thox-ai/thoxbuild/abicheck/policy"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
	"github.com/thox-ai/thoxbuild/manifests"
)

var manylinuxPass = rule.Pass{
	Name: "manylinux",
	Run:  checkManylinux,
	Rules: []rule.Info{{
		ID: "MANYLINUX", Severity: rule.Error,
		Title: "needs a symbol version that the manylinux policy does not promise",
		Explain: `A manylinux tag promises that the file loads on every system at least as old
as its C library, such as glibc 2.28 for manylinux_2_28. A symbol bound to
GLIBC_2.34, or to a GLIBCXX version of a newer compiler, breaks that: the
loader refuses the file before any of its code runs.

Read from .dynsym, .gnu.version and .gnu.version_r, so it does not matter
whether the file is stripped or which linker wrote it. Versions are compared
as names, not as numbers: GLIBC_PRIVATE and GLIBC_ABI_DT_RELR are no numbers,
and the second belongs to no symbol at all. Versions of other libraries
(libcudart.so.13) are not the policy's business.

Build with a toolchain of the policy's age, or with a compiler that targets
an old C library, such as zig c++ -target x86_64-linux-gnu.2.28.`,
	}, {
		ID: "PRIVATE-SYMBOL", Severity: rule.Error,
		Title: "uses a symbol that is internal to a system library",
		Explain: `A library that a system promises to have may still export names for its own
use, such as inflate_table of libz. They come and go with patch releases, so
the policy forbids them although the version looks old enough.

Link the library statically, or use its documented interface.`,
	}},
}

func checkManylinux(_ context.Context, s *rule.Subject, _ *rule.Options) ([]rule.Finding, error) {
	if s.ELF == nil || s.ELF.Type != elf.ET_DYN || s.Want.Manylinux == "" {
		return nil, nil
	}
	p, err := policy.FindManylinux(s.Want.Manylinux)
	if err != nil {
		return nil, err
	}
	arch := archOf(s)
	if !p.Covers(arch) {
		return nil, nil
	}
	syms, err := s.ELF.DynSymbols()
	if err != nil {
		return nil, err
	}
	needs, err := s.ELF.Needs()
	if err != nil {
		return nil, err
	}
	d, err := s.ELF.Dynamic()
	if d == nil || err != nil {
		return nil, err
	}
	c := collect(s)
	weak := map[string]bool{}
	for _, n := range needs {
		weak[n.Library+" "+n.Version] = n.Weak
	}
	used := map[string]bool{}
	for i := range syms {
		y := &syms[i]
		if !y.Undefined() || y.Name == "" {
			continue
		}
		if y.Version != "" {
			used[y.Library+" "+y.Version] = true
			if f := versionFinding(c, p, arch, y.Name+"@"+y.Version, y.Version); f != nil {
				f.Symbol = y.Name
				soften(f, weak[y.Library+" "+y.Version])
			}
		}
		if y.Bind == elf.STB_WEAK {
			continue // it may stay unresolved, and the file copes with that
		}
		// Without a version the symbol may come from any needed library.
		for _, lib := range d.Needed {
			if (y.Library == "" || y.Library == lib) && p.Private(lib, y.Name) {
				c.add("PRIVATE-SYMBOL", rule.Error,
					fmt.Sprintf("uses %s, which is internal to %s under %s", y.Name, lib, p.Name),
					"link that library statically or use its documented interface").Symbol = y.Name
			}
		}
	}
	relr := false
	for _, n := range needs {
		relr = relr || n.Version == relrVersion
		if !used[n.Library+" "+n.Version] {
			if f := versionFinding(c, p, arch, fmt.Sprintf("version %s of %s", n.Version, n.Library), n.Version); f != nil {
				f.Detail = append(f.Detail, "no symbol has this version; the loader asks for it all the same")
				soften(f, n.Weak)
			}
		}
	}
	// GNU ld adds the version only where the C library is needed by name, and
	// other linkers need not add it; an older loader then skips the
	// relocations without a word.
	if _, ok := d.Value(elffile.DTRelr); ok && !relr && p.GLIBC().Compare(relrSince) < 0 {
		c.add("MANYLINUX", rule.Error, fmt.Sprintf("has packed relocations (DT_RELR), which glibc knows since %v; %s promises %v", relrSince, p.Name, p.GLIBC()),
			"link without -z pack-relative-relocs", "an older loader does not see them and leaves pointers unrelocated")
	}
	return c.done(), nil
}

// soften makes a finding about a weak version a note: a loader goes on
// without it.
func soften(f *rule.Finding, weak bool) {
	if weak {
		f.Severity = rule.Note
		f.Detail = append(f.Detail, "the version is marked weak, so a loader without it goes on")
	}
}

// Packed relocations: the version that asks for them, and the first C library
// that has it.
const relrVersion = "GLIBC_ABI_DT_RELR"

var relrSince = manifests.Version{Major: 2, Minor: 36}

func versionFinding(c *collector, p *policy.Manylinux, arch manifests.Arch, what, version string) *rule.Finding {
	ok, known, top := p.Allows(arch, version)
	if ok || !known {
		return nil
	}
	msg := fmt.Sprintf("needs %s, newer than %s allows (%s)", what, p.Name, top)
	fix := fmt.Sprintf("build in the %s toolchain or for an older C library (-target ...-gnu.%v)", p.Name, p.GLIBC())
	switch {
	case version == "GLIBC_PRIVATE":
		msg = fmt.Sprintf("needs %s, which belongs to one build of the C library", what)
		fix = "use the public interface of the C library"
	case version == relrVersion:
		msg = fmt.Sprintf("needs %s: packed relocations, which %s does not know", what, p.Name)
		fix = "link without -z pack-relative-relocs"
	case !policy.IsNumber(version):
		msg = fmt.Sprintf("needs %s, which %s does not have", what, p.Name)
	case top == "":
		msg = fmt.Sprintf("needs %s; %s allows none of that library", what, p.Name)
	}
	return c.add("MANYLINUX", rule.Error, msg, fix)
}

// archOf names the processor as variant names do; empty for others.
func archOf(s *rule.Subject) manifests.Arch {
	if s.ELF == nil {
		return ""
	}
	switch s.ELF.Machine {
	case elf.EM_X86_64:
		return manifests.X86_64
	case elf.EM_AARCH64:
		return manifests.AArch64
	}
	return ""
}

// linked returns whether the subject is a shared library with a dynamic
// section, what the rules about loading apply to.
func linked(s *rule.Subject) bool {
	return s.ELF != nil && s.ELF.Type == elf.ET_DYN && slices.ContainsFunc(s.ELF.Progs, func(p elffile.Prog) bool { return p.Type == elf.PT_DYNAMIC })
}
