package isa

import (
	"context"
	"debug/elf"
	"debug/macho"
	"encoding/binary"

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
	if !isObject(s) {
		return nil, nil
	}
	return checkObject(ctx, s, o)
}

// isObject tells a relocatable file that this package can read.
func isObject(s *rule.Subject) bool {
	if m := s.MachO; m != nil {
		return m.Type == macho.TypeObj && m.Order == binary.LittleEndian && machMachine(m) != elf.EM_NONE
	}
	return s.ELF != nil && s.ELF.Type == elf.ET_REL
}

// targetOf is the target for the machine of a subject.
func targetOf(s *rule.Subject, strict bool) (t target, ok bool, err error) {
	if m := s.MachO; m != nil {
		return targetFor(machMachine(m), machBaseline(m, s.Want.Baseline), strict)
	}
	return targetFor(s.ELF.Machine, s.Want.Baseline, strict)
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
