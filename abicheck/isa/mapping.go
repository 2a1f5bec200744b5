package isa

import (
	"cmp"
	"debug/elf"
	"slices"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
)

// mark finds the data among AArch64 code from mapping symbols: $d starts data
// and $x code, each until the next in its section. place gives the address of
// a symbol, false for one outside of code.
func (im *image) mark(syms []elffile.Symbol, place func(*elffile.Symbol) (uint64, bool)) {
	if im.machine == machineX86 {
		return
	}
	type mark struct {
		addr uint64
		data bool
	}
	var marks []mark
	for i := range syms {
		s := &syms[i]
		if s.Type != elf.STT_NOTYPE || len(s.Name) < 2 || s.Name[0] != '$' || len(s.Name) > 2 && s.Name[2] != '.' {
			continue
		}
		if kind := s.Name[1]; kind == 'd' || kind == 'x' {
			if a, ok := place(s); ok {
				marks = append(marks, mark{a, kind == 'd'})
			}
		}
	}
	slices.SortFunc(marks, func(a, b mark) int { return cmp.Compare(a.addr, b.addr) })
	for i, m := range marks {
		if !m.data {
			continue
		}
		seg := im.segmentAt(m.addr)
		if seg < 0 {
			continue
		}
		end := im.text[seg].addr + uint64(len(im.text[seg].bytes))
		if i+1 < len(marks) {
			end = min(end, marks[i+1].addr)
		}
		if end > m.addr {
			im.literals = append(im.literals, span{m.addr, end - m.addr})
		}
	}
}

// isData reports whether a mapping symbol says that addr is data.
func (im *image) isData(addr uint64) bool {
	if len(im.literals) == 0 {
		return false
	}
	i, ok := slices.BinarySearchFunc(im.literals, addr, func(s span, a uint64) int { return cmp.Compare(s.addr, a) })
	if ok {
		return true
	}
	return i > 0 && addr-im.literals[i-1].addr < im.literals[i-1].size
}
