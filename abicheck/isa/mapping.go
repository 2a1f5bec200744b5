package isa

import (
	"cmp"
	"debug/elf"
	"slices"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
)

// A mark is where a mapping symbol says that data begins among AArch64 code,
// $d, or code, $x.
type mark struct {
	addr uint64
	data bool
}

// appendMark adds the mark of a symbol at addr, if it is one.
func appendMark(marks []mark, s *elffile.Symbol, addr uint64) []mark {
	if s.Type != elf.STT_NOTYPE || len(s.Name) < 2 || s.Name[0] != '$' || len(s.Name) > 2 && s.Name[2] != '.' {
		return marks
	}
	if kind := s.Name[1]; kind == 'd' || kind == 'x' {
		marks = append(marks, mark{addr, kind == 'd'})
	}
	return marks
}

// mark finds the data among code: each mark holds until the next in its section.
func (im *image) mark(marks []mark) {
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
