package facts

import (
	"context"
	"debug/elf"
	"fmt"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

const weakBind = elf.STB_WEAK

var searchPass = rule.Pass{
	Name: "search",
	Run:  checkSearch,
	Rules: []rule.Info{{
		ID: "RPATH", Severity: rule.Error,
		Title: "searches libraries in a folder that is not its own",
		Explain: `DT_RUNPATH and DT_RPATH name folders where the loader looks first. An absolute
one is a folder of the build machine: on another machine it is missing, or
somebody else's. An empty element is the current folder of the process. Every
element must start with $ORIGIN, the folder of the file itself.

DT_RPATH, the older form, also overrides LD_LIBRARY_PATH and applies to the
libraries of libraries; in a kernel variant that is a warning, elsewhere a
note. A kernel needs neither: torch's libraries are loaded before it.

Link without -rpath, or with -Wl,-rpath,'$ORIGIN',--enable-new-dtags.`,
	}, {
		ID: "INTERP", Severity: rule.Error,
		Title: "is a library but names a program loader",
		Explain: `PT_INTERP belongs into programs. In a library it shows a link step that mixed up
-pie and -shared, and some loaders refuse it. Link with -shared.`,
	}},
}

func checkSearch(_ context.Context, s *rule.Subject, _ *rule.Options) ([]rule.Finding, error) {
	if !linked(s) {
		return nil, nil
	}
	d, err := s.ELF.Dynamic()
	if err != nil {
		return nil, err
	}
	c := collect(s)
	check := func(tag string, paths []string) {
		for _, path := range paths {
			for _, e := range strings.Split(path, ":") {
				switch {
				case e == "":
					c.add("RPATH", rule.Error, fmt.Sprintf("%s %q has an empty element: the current folder of the process", tag, path),
						"remove the stray colon")
				case !strings.HasPrefix(e, "/") && !strings.HasPrefix(e, "$"):
					c.add("RPATH", rule.Error, fmt.Sprintf("%s holds %q, which is looked for in the current folder of the process", tag, e),
						"write $ORIGIN/"+e)
				case !strings.HasPrefix(e, "$ORIGIN") && !strings.HasPrefix(e, "${ORIGIN}"):
					c.add("RPATH", rule.Error, fmt.Sprintf("%s holds %q, a folder of the build machine", tag, e),
						"link without -rpath, or with $ORIGIN")
				}
			}
		}
	}
	check("RUNPATH", d.Runpath)
	check("RPATH", d.Rpath)
	if len(d.Rpath) > 0 {
		sev := rule.Note
		if s.Package != nil && s.Package.Metadata != nil {
			sev = rule.Warning
		}
		c.add("RPATH", sev, "uses DT_RPATH, which overrides LD_LIBRARY_PATH and applies to the libraries of libraries",
			"link with -Wl,--enable-new-dtags")
	}
	// The C library and the loader may be run as programs; they say so by an
	// entry point that lies in the file.
	if isExtension(s) || s.Package != nil && s.Package.Metadata != nil {
		for i := range s.ELF.Progs {
			if s.ELF.Progs[i].Type == elf.PT_INTERP {
				c.add("INTERP", rule.Error, "names a program loader (PT_INTERP)", "link with -shared and without -pie")
			}
		}
	}
	return c.done(), nil
}
