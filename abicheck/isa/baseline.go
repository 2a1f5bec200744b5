package isa

import (
	"debug/elf"
	"fmt"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/isa/a64"
	"github.com/thox-ai/thoxbuild/abicheck/isa/x86"
)

// A target is a machine with the features that every supported processor has.
type target struct {
	machine elf.Machine
	name    string // as the user says it: "x86-64-v2"
	cpu     string // what lacks the rest, for messages: "an x86-64-v2 CPU"
	allowed uint64
	names   func(uint64) string
}

// Baselines are the names that Options.Baseline takes.
var Baselines = []string{"x86-64", "x86-64-v2", "x86-64-v3", "armv8-a", "apple-m1"}

// targetFor picks the baseline by name, or the oldest processor of the machine
// for an empty name or one of another machine. ok is false for a machine this
// package cannot decode.
func targetFor(m elf.Machine, baseline string, strict bool) (t target, ok bool, err error) {
	t = target{machine: m}
	switch m {
	case elf.EM_X86_64:
		t.names = func(f uint64) string { return x86.Feat(f).String() }
		t.name = "x86-64"
		if strings.HasPrefix(baseline, "x86-64") {
			t.name = baseline
		}
		f := x86.V1
		switch t.name {
		case "x86-64":
		case "x86-64-v2":
			f = x86.V2
		case "x86-64-v3":
			f = x86.V3
		default:
			return t, false, fmt.Errorf("baseline %q: expected one of %s", baseline, strings.Join(Baselines, ", "))
		}
		if !strict {
			f |= x86.Gated
		}
		t.allowed = uint64(f)
	case elf.EM_AARCH64:
		t.names = func(f uint64) string { return a64.Feat(f).String() }
		t.name = "armv8-a"
		f := a64.Base
		if baseline == "apple-m1" {
			t.name, f = baseline, a64.AppleM1
		}
		t.allowed = uint64(f)
	default:
		return t, false, nil
	}
	t.cpu = "a CPU that has " + t.name + " only"
	return t, true, nil
}

// above returns what of feat the baseline lacks. tzcnt runs everywhere but
// means something else there, so it counts only in code compiled for it.
func (t *target) above(feat uint64, isaUnit bool) uint64 {
	feat &^= t.allowed
	if t.machine == elf.EM_X86_64 && !isaUnit {
		feat &^= uint64(x86.TZCNT)
	}
	return feat
}
