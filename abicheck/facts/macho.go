package facts

import (
	"context"
	"debug/macho"
	"fmt"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/machofile"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
	"github.com/thox-ai/thoxbuild/manifests"
)

var machoPass = rule.Pass{
	Name: "macos",
	Run:  checkMachO,
	Rules: []rule.Info{{
		ID: "MACOS-MINOS", Severity: rule.Error,
		Title: "needs a newer macOS than promised",
		Explain: `LC_BUILD_VERSION, or the older LC_VERSION_MIN_MACOSX, holds the oldest system that
each architecture of the file runs on. It must not be newer than what the
variant promises. Compile and link with -mmacosx-version-min.

A Metal variant that claims an older system than its shaders need gets a
warning: the loader refuses it there, whatever the file says.`,
	}, {
		ID: "MACOS-RPATH", Severity: rule.Error,
		Title: "searches libraries in a folder that is not its own",
		Explain: `LC_RPATH may only name folders relative to the file (@loader_path), and libraries
with an absolute path must be the system's own (/usr/lib, /System). Anything
else is a folder of the build machine.
Use -Wl,-rpath,@loader_path and install_name_tool.`,
	}, {
		ID: "MACOS-WEAK", Severity: rule.Warning,
		Title: "exports weak definitions",
		Explain: `dyld unites weak definitions (inline functions, templates) of all loaded images, so
this file's copy may serve another library or the other way round.
Compile with -fvisibility=hidden -fvisibility-inlines-hidden.`,
	}, {
		ID: "MACOS-SIGNATURE", Severity: rule.Error,
		Title: "has no valid code signature for Apple silicon",
		Explain: `macOS on arm64 kills a process that loads an unsigned library, or one whose pages
are not those that were signed. Linkers sign by themselves (ad hoc); a tool that
edits the file later, such as strip or install_name_tool, may drop or break the
signature. Run codesign -f -s - on it. Who signed is not looked at.`,
	}},
}

func checkMachO(_ context.Context, s *rule.Subject, _ *rule.Options) ([]rule.Finding, error) {
	m := s.MachO
	if m == nil || m.Type != macho.TypeDylib && m.Type != macho.TypeBundle {
		return nil, nil
	}
	c := collect(s)
	limit := s.Want.MacOS
	switch {
	case !m.HasMinOS:
		c.add("MACOS-MINOS", rule.Error, fmt.Sprintf("%s: has neither LC_BUILD_VERSION nor LC_VERSION_MIN_MACOSX", m.Arch()), "link with -mmacosx-version-min")
	case m.Platform != machofile.PlatformMacOS:
		c.add("MACOS-MINOS", rule.Error, fmt.Sprintf("%s: is built for platform %d, not for macOS", m.Arch(), m.Platform), "compile with -target ...-apple-macos")
	case !limit.IsZero() && (m.MinOS.Major() > limit.Major || m.MinOS.Major() == limit.Major && m.MinOS.Minor() > limit.Minor):
		c.add("MACOS-MINOS", rule.Error, fmt.Sprintf("%s: needs macOS %v; %v is promised", m.Arch(), m.MinOS, limit), fmt.Sprintf("compile and link with -mmacosx-version-min=%v", limit))
	}
	if metal := (manifests.Compute{Backend: manifests.Metal}); s.Want.Compute.Backend == manifests.Metal && m.HasMinOS && m.MinOS.Major() < metal.MacOS().Major {
		c.add("MACOS-MINOS", rule.Warning, fmt.Sprintf("%s: says that it runs on macOS %v; Metal variants need %v", m.Arch(), m.MinOS, metal.MacOS()),
			fmt.Sprintf("compile and link with -mmacosx-version-min=%v", metal.MacOS()))
	}
	for _, path := range m.Rpaths {
		if path != "@loader_path" && !strings.HasPrefix(path, "@loader_path/") {
			c.add("MACOS-RPATH", rule.Error, fmt.Sprintf("LC_RPATH %q is not relative to the file", path), "use @loader_path")
		}
	}
	for _, lib := range m.Dylibs {
		if strings.HasPrefix(lib.Name, "/") && !strings.HasPrefix(lib.Name, "/usr/lib/") && !strings.HasPrefix(lib.Name, "/System/Library/") {
			c.add("MACOS-RPATH", rule.Error, fmt.Sprintf("needs %s, a path of the build machine", lib.Name), "install_name_tool -change to an @rpath or @loader_path name")
		}
	}
	if m.CPU == macho.CpuArm64 {
		if err := m.VerifySignature(); err != nil {
			c.add("MACOS-SIGNATURE", rule.Error, fmt.Sprintf("has a broken code signature: %v", err), "codesign -f -s - "+s.Name)
		} else if !m.Signature {
			c.add("MACOS-SIGNATURE", rule.Error, "has no code signature; macOS on arm64 refuses to load it", "codesign -s - "+s.Name)
		}
	}
	syms, err := m.Symbols()
	if err != nil {
		return nil, err
	}
	var weak []string
	for i := range syms {
		if y := &syms[i]; y.WeakDef() && y.External() && !y.PrivateExternal() {
			weak = append(weak, y.Name)
		}
	}
	if len(weak) > 0 && (isExtension(s) || s.Package != nil && s.Package.Metadata != nil) {
		f := c.add("MACOS-WEAK", rule.Warning, fmt.Sprintf("exports %d weak definitions", len(weak)), "compile with -fvisibility=hidden -fvisibility-inlines-hidden")
		f.Symbol = slices.Min(weak)
	}
	return c.done(), nil
}
