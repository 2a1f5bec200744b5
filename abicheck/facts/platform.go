package facts

import (
	"context"
	"debug/elf"
	"debug/pe"
	"fmt"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
	"github.com/thox-ai/thoxbuild/manifests"
)

var platformPass = rule.Pass{
	Name: "platform",
	Run:  checkPlatform,
	Rules: []rule.Info{{
		ID: "PLATFORM", Severity: rule.Error,
		Title: "is built for another processor or system than its variant names",
		Explain: `The loader chooses a variant by its name and then loads the file inside. One for
another processor fails with "wrong ELF class" or "cannot open shared object".`,
	}},
}

func checkPlatform(_ context.Context, s *rule.Subject, _ *rule.Options) ([]rule.Finding, error) {
	want := s.Want.Platform
	if want == (manifests.Platform{}) || s.Dir != "" {
		return nil, nil
	}
	var got string
	switch {
	case s.ELF != nil:
		got = s.ELF.Machine.String() + "-linux"
		if a := archOf(s); a != "" {
			got = string(a) + "-linux"
		}
		if s.ELF.Type != elf.ET_DYN {
			return nil, nil
		}
	case s.MachO != nil:
		got = map[string]string{"arm64": "aarch64", "x86_64": "x86_64"}[s.MachO.Arch()] + "-darwin"
	case s.PE != nil:
		got = map[uint16]string{pe.IMAGE_FILE_MACHINE_AMD64: "x86_64", pe.IMAGE_FILE_MACHINE_ARM64: "aarch64"}[s.PE.Machine] + "-windows"
	}
	if got == want.String() {
		return nil, nil
	}
	c := collect(s)
	c.add("PLATFORM", rule.Error, fmt.Sprintf("is built for %s; the variant's name says %v", got, want), "build it with the toolchain of the variant")
	return c.done(), nil
}
