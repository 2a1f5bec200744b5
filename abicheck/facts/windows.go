package facts

import (
	"context"
	"debug/pe"
	"fmt"
	"regexp"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

var windowsPass = rule.Pass{
	Name: "windows",
	Run:  checkPE,
	Rules: []rule.Info{{
		ID: "PE-PYTHON", Severity: rule.Error,
		Title: "is bound to one Python release although it promises the stable ABI",
		Explain: `An abi3 module must import its Python names from python3.dll. python311.dll exists
in one release only. Define Py_LIMITED_API, or link with python3.lib.`,
	}, {
		ID: "PE-HARDEN", Severity: rule.Warning,
		Title: "is loaded without address randomisation or with executable data",
		Explain: `Without DYNAMIC_BASE the image is always at one address, without NX_COMPAT its data
is executable. Link with /DYNAMICBASE /NXCOMPAT.`,
	}},
}

var pythonDLL = regexp.MustCompile(`^(?i)python3\d+(_d)?\.dll$`)

func checkPE(_ context.Context, s *rule.Subject, _ *rule.Options) ([]rule.Finding, error) {
	if s.PE == nil {
		return nil, nil
	}
	c := collect(s)
	if !s.Want.PythonABI.IsZero() {
		for _, imp := range s.PE.Imports {
			if pythonDLL.MatchString(imp.DLL) {
				c.add("PE-PYTHON", rule.Error, fmt.Sprintf("imports %s from %s, which belongs to one Python release", listed(imp.Names, 3), strings.ToLower(imp.DLL)), "define Py_LIMITED_API and link with python3.lib")
			}
		}
	}
	const want = pe.IMAGE_DLLCHARACTERISTICS_DYNAMIC_BASE | pe.IMAGE_DLLCHARACTERISTICS_NX_COMPAT
	if s.PE.Characteristics&want != want {
		c.add("PE-HARDEN", rule.Warning, "lacks address randomisation or data-execution prevention", "link with /DYNAMICBASE /NXCOMPAT")
	}
	return c.done(), nil
}
