package isa

import (
	"context"
	"debug/elf"
	"debug/macho"

	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

// Passes returns the ISA passes: one for objects, one for linked files.
func Passes() []rule.Pass {
	return []rule.Pass{
		{Name: "isa-object", Rules: objectRules, Run: runObject, Slow: true},
		{Name: "isa-library", Rules: libraryRules, Run: runLibrary, Slow: true},
	}
}

func runObject(ctx context.Context, s *rule.Subject, o *rule.Options) ([]rule.Finding, error) {
	if s.ELF == nil || s.ELF.Type != elf.ET_REL {
		return nil, nil
	}
	return checkObject(ctx, s, o)
}

func runLibrary(ctx context.Context, s *rule.Subject, o *rule.Options) ([]rule.Finding, error) {
	if m := s.MachO; m != nil && (m.Type == macho.TypeDylib || m.Type == macho.TypeBundle || m.Type == macho.TypeExec) {
		return checkMachO(ctx, s, o)
	}
	if s.ELF == nil || s.ELF.Type != elf.ET_DYN && s.ELF.Type != elf.ET_EXEC {
		return nil, nil
	}
	return checkLibrary(ctx, s, o)
}
