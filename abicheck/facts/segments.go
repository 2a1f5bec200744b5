package facts

import (
	"context"
	"debug/elf"
	"fmt"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

var segmentPass = rule.Pass{
	Name: "segments",
	Run:  checkSegments,
	Rules: []rule.Info{{
		ID: "EXECSTACK", Severity: rule.Error,
		Title: "asks for an executable stack",
		Explain: `A PT_GNU_STACK segment with the X flag, or none at all, asks the loader to make
the stack of the process executable. glibc 2.41 and newer refuse to dlopen such
a file. One assembly source without a .note.GNU-stack section is enough to
cause it.

Add  .section .note.GNU-stack,"",@progbits  to the source, and link with
-z noexecstack.`,
	}, {
		ID: "TEXTREL", Severity: rule.Error,
		Title: "has relocations in read-only code",
		Explain: `With DT_TEXTREL the loader makes the code writable, patches it and so gives each
process its own copy; hardened systems refuse. It comes from code that was not
compiled with -fPIC. Compile every object with -fPIC and link with -z text.`,
	}, {
		ID: "WX", Severity: rule.Error,
		Title: "has a segment that is writable and executable",
		Explain: `A segment with both flags lets any overflow write code. Linkers make one only
when told to (-N, -z nognustack, a linker script).`,
	}, {
		ID: "RELRO", Severity: rule.Warning,
		Title: "leaves its relocated tables writable",
		Explain: `PT_GNU_RELRO makes the tables of function pointers read-only after loading. With
BIND_NOW that includes the table of calls; without it the file is only noted.
Link with -z relro -z now.`,
	}, {
		ID: "STATIC-TLS", Severity: rule.Warning,
		Title: "uses static thread-local storage in a library that is loaded late",
		Explain: `DF_STATIC_TLS takes room from a small reserve that all libraries share. dlopen
fails with "cannot allocate memory in static TLS block" once it is used up,
depending on what was imported before. Compile without -ftls-model=initial-exec.`,
	}, {
		ID: "ALIGN", Severity: rule.Error,
		Title: "is aligned for smaller pages than some aarch64 systems have",
		Explain: `Linux on aarch64 may have 64 kB pages. A segment that is aligned to less cannot
be mapped there: "ELF load command alignment not page-aligned".
Link with -z max-page-size=65536.`,
	}},
}

func checkSegments(_ context.Context, s *rule.Subject, _ *rule.Options) ([]rule.Finding, error) {
	if !linked(s) {
		return nil, nil
	}
	d, err := s.ELF.Dynamic()
	if err != nil {
		return nil, err
	}
	c := collect(s)
	var stack, relro bool
	for i := range s.ELF.Progs {
		p := &s.ELF.Progs[i]
		switch p.Type {
		case elf.PT_GNU_STACK:
			stack = true
			if p.Flags&elf.PF_X != 0 {
				c.add("EXECSTACK", rule.Error, "asks for an executable stack (PT_GNU_STACK has the X flag)",
					`add .section .note.GNU-stack,"",@progbits to every assembly source; link with -z noexecstack`)
			}
		case elf.PT_GNU_RELRO:
			relro = true
		case elf.PT_LOAD:
			if p.Flags&(elf.PF_W|elf.PF_X) == elf.PF_W|elf.PF_X {
				f := c.add("WX", rule.Error, fmt.Sprintf("has a segment of 0x%x bytes that is writable and executable", p.Memsz), "link without -N and without a script that joins .text and .data")
				f.Addr, f.HasAddr = p.Vaddr, true
			}
			if s.ELF.Machine == elf.EM_AARCH64 && p.Align < 0x10000 {
				f := c.add("ALIGN", rule.Error, fmt.Sprintf("has a segment aligned to 0x%x; aarch64 systems have pages of up to 0x10000 bytes", p.Align), "link with -z max-page-size=65536")
				f.Addr, f.HasAddr = p.Vaddr, true
			}
		}
	}
	if !stack {
		c.add("EXECSTACK", rule.Error, "has no PT_GNU_STACK segment, which asks for an executable stack", "link with -z noexecstack")
	}
	if d.TextRel {
		c.add("TEXTREL", rule.Error, "has relocations in read-only code (DT_TEXTREL)", "compile every object with -fPIC; link with -z text")
	}
	switch {
	case !relro:
		c.add("RELRO", rule.Warning, "has no PT_GNU_RELRO segment: its pointer tables stay writable", "link with -z relro -z now")
	case !d.BindNow:
		c.add("RELRO", rule.Note, "binds lazily, so the table of calls stays writable", "link with -z now")
	}
	if d.Flags&elf.DF_STATIC_TLS != 0 {
		c.add("STATIC-TLS", rule.Warning, "takes static thread-local storage although it is loaded late", "compile without -ftls-model=initial-exec")
	}
	return c.done(), nil
}
