package elffile

import (
	"debug/elf"
	"strings"
)

// Note is one record of a note segment or section.
type Note struct {
	Name string
	Type uint32
	Desc []byte
}

// maxNotes bounds what is read of each note segment.
const maxNotes = 1 << 20

// Notes reads the notes of all PT_NOTE segments, or of the note sections of a
// file without segments. A record that does not fit ends its segment.
func (f *File) Notes() ([]Note, error) {
	type span struct{ off, size, align uint64 }
	var spans []span
	for i := range f.Progs {
		if p := &f.Progs[i]; p.Type == elf.PT_NOTE {
			spans = append(spans, span{p.Off, p.Filesz, p.Align})
		}
	}
	if len(f.Progs) == 0 {
		for i := range f.Sections {
			if s := &f.Sections[i]; s.Type == elf.SHT_NOTE {
				spans = append(spans, span{s.Offset, s.Size, s.Align})
			}
		}
	}
	var notes []Note
	var total uint64
	for _, s := range spans {
		n := min(s.size, maxNotes)
		if total += n; total > maxNotes {
			break
		}
		b, err := f.table(s.off, 1, n, "notes")
		if err != nil {
			return nil, err
		}
		align := uint64(4)
		if s.align == 8 {
			align = 8
		}
		notes = append(notes, f.decodeNotes(b, align)...)
	}
	return notes, nil
}

func (f *File) decodeNotes(b []byte, align uint64) (notes []Note) {
	up := func(n uint64) uint64 { return (n + align - 1) &^ (align - 1) }
	for len(b) >= 12 {
		c := f.cursor(b)
		nameSize, descSize, kind := uint64(c.u32()), uint64(c.u32()), c.u32()
		descAt := up(12 + nameSize)
		if descAt > uint64(len(b)) || descSize > uint64(len(b))-descAt {
			return notes
		}
		name := strings.TrimRight(string(b[12:12+nameSize]), "\x00")
		notes = append(notes, Note{name, kind, b[descAt : descAt+descSize]})
		b = b[min(up(descAt+descSize), uint64(len(b))):]
	}
	return notes
}

// BuildID returns the GNU build id, or nil.
func (f *File) BuildID() []byte {
	notes, err := f.Notes()
	if err != nil {
		return nil
	}
	for _, n := range notes {
		if n.Name == "GNU" && n.Type == 3 {
			return n.Desc
		}
	}
	return nil
}
