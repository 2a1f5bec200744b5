package facts

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/policy"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
	"github.com/thox-ai/thoxbuild/manifests"
)

var pythonPass = rule.Pass{
	Name: "python",
	Run:  checkPython,
	Rules: []rule.Info{{
		ID: "ABI3", Severity: rule.Error,
		Title: "uses a Python symbol outside the stable ABI that its name promises",
		Explain: `A file named *.abi3.so, or one that metadata says is built for the limited API,
loads into every Python from its floor on. It may use only names of CPython's
stable ABI that the floor already had; another name is missing in some Python,
and the import fails there.

Only undefined dynamic symbols count. A helper such as _Py_XDECREF that the
compiler emitted into the file itself is the file's own affair. Names under a
condition that no released Python meets (Py_REF_DEBUG) do not count as stable.

Define Py_LIMITED_API as the floor (0x03090000 for 3.9) before including
Python.h, so that the compiler refuses the others.`,
	}, {
		ID: "PYINIT", Severity: rule.Error,
		Title: "exports no init function for the module name that its file has",
		Explain: `Python imports _ops.abi3.so by calling PyInit__ops. Without that export the
import fails with "dynamic module does not define module export function".
A library that is only loaded by ctypes or torch.ops.load_library does not
need it, so outside a kernel variant this is a note.`,
	}},
}

var extensionName = regexp.MustCompile(`^([^.]+)\.(abi3(t)?|cpython-[0-9a-z_-]+|cp[0-9]+-[a-z0-9_]+|pypy[0-9a-z_-]+|abi3-[a-z0-9_-]+)\.(so|pyd)$`)

// moduleName is the module that the file name promises, or empty.
func moduleName(s *rule.Subject) string {
	if m := extensionName.FindStringSubmatch(s.Name); m != nil {
		return m[1]
	}
	if stem, ok := strings.CutSuffix(s.Name, ".pyd"); ok && !strings.Contains(stem, ".") {
		return stem
	}
	return ""
}

func isExtension(s *rule.Subject) bool { return moduleName(s) != "" }

// pySymbols lists undefined and defined names as C spells them.
func pySymbols(s *rule.Subject) (undefined, defined []string, err error) {
	switch {
	case s.ELF != nil:
		syms, err := s.ELF.DynSymbols()
		for i := range syms {
			if y := &syms[i]; y.Undefined() {
				undefined = append(undefined, y.Name)
			} else if strings.HasPrefix(y.Name, "Py") {
				defined = append(defined, y.Name)
			}
		}
		return undefined, defined, err
	case s.MachO != nil:
		syms, err := s.MachO.Symbols()
		for i := range syms {
			y := &syms[i]
			name := strings.TrimPrefix(y.Name, "_")
			if y.Undefined() {
				undefined = append(undefined, name)
			} else if y.External() && !y.PrivateExternal() && strings.HasPrefix(name, "Py") {
				defined = append(defined, name)
			}
		}
		return undefined, defined, err
	case s.PE != nil:
		for _, imp := range s.PE.Imports {
			if strings.HasPrefix(strings.ToLower(imp.DLL), "python") {
				undefined = append(undefined, imp.Names...)
			}
		}
		return undefined, s.PE.Exports, nil
	}
	return nil, nil, nil
}

func osOf(s *rule.Subject) manifests.OS {
	switch {
	case s.MachO != nil:
		return manifests.Darwin
	case s.PE != nil:
		return manifests.Windows
	}
	return manifests.Linux
}

func checkPython(_ context.Context, s *rule.Subject, _ *rule.Options) ([]rule.Finding, error) {
	module := moduleName(s)
	floor := s.Want.PythonABI
	if s.MachO == nil && s.PE == nil && !linked(s) || module == "" && floor.IsZero() {
		return nil, nil
	}
	undefined, defined, err := pySymbols(s)
	if err != nil {
		return nil, err
	}
	c := collect(s)
	if !floor.IsZero() {
		for _, name := range undefined {
			if !strings.HasPrefix(name, "Py") && !strings.HasPrefix(name, "_Py") {
				continue
			}
			added, ok := policy.ABI3(name, osOf(s))
			switch {
			case !ok:
				c.add("ABI3", rule.Error, fmt.Sprintf("uses %s, which is not in Python's stable ABI", name),
					fmt.Sprintf("compile with -DPy_LIMITED_API=%#08x and use what is left", hexVersion(floor))).Symbol = name
			case added.Compare(floor) > 0:
				c.add("ABI3", rule.Error, fmt.Sprintf("uses %s, which the stable ABI has since Python %v; the file promises %v", name, added, floor),
					fmt.Sprintf("compile with -DPy_LIMITED_API=%#08x, or raise the floor to %v", hexVersion(floor), added)).Symbol = name
			}
		}
		if newest := policy.ABI3Newest(); floor.Compare(newest) > 0 {
			c.add("ABI3", rule.Warning, fmt.Sprintf("promises Python %v; the table of stable names ends with %v", floor, newest), "update thoxbuild")
		}
	}
	if module == "" {
		return c.done(), nil
	}
	found := false
	for _, name := range defined {
		if name == "PyInit_"+module || name == "PyModExport_"+module || strings.HasPrefix(name, "PyInitU_") {
			found = true
		}
	}
	if !found {
		sev := rule.Note
		if s.Package != nil && s.Package.Metadata != nil {
			sev = rule.Error
		}
		f := c.add("PYINIT", sev, fmt.Sprintf("does not export PyInit_%s, which importing it calls", module),
			"define the module with that name and default visibility (PyMODINIT_FUNC), or name the file after the one it has")
		for _, name := range defined {
			if strings.HasPrefix(name, "PyInit_") {
				f.Detail = append(f.Detail, "it exports "+name)
			}
		}
	}
	return c.done(), nil
}

// hexVersion packs a version as Py_LIMITED_API wants it.
func hexVersion(v manifests.Version) uint32 { return uint32(v.Major)<<24 | uint32(v.Minor)<<16 }
