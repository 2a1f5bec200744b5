package machofile

import "strings"

// Pointer formats of LC_DYLD_CHAINED_FIXUPS for 64-bit user programs.
const (
	ptrArm64e           = 1
	ptr64               = 2
	ptr64Offset         = 6
	ptrArm64eUserland   = 9
	ptrArm64eUserland24 = 12
)

// perPointer is what a pointer may take of a check's memory, in bytes.
const perPointer = 160

// chainedPointers walks the chains of LC_DYLD_CHAINED_FIXUPS: in each page of a
// segment, a word holds the distance to the next one besides its own meaning.
// The layout is that of <mach-o/fixup-chains.h>.
func (f *File) chainedPointers() ([]Pointer, error) {
	if f.fixups.Size == 0 || !f.wide {
		return nil, nil
	}
	b, err := f.span(f.fixups, "chained fixups")
	if err != nil {
		return nil, err
	}
	off := int64(f.fixups.Off)
	u32 := func(at uint64) (uint32, bool) {
		if at > uint64(len(b)) || uint64(len(b))-at < 4 {
			return 0, false
		}
		return f.Order.Uint32(b[at:]), true
	}
	var head [7]uint32
	for i := range head {
		v, ok := u32(uint64(4 * i))
		if !ok {
			return nil, formatErr(off, "the header of the chained fixups is cut off")
		}
		head[i] = v
	}
	names := f.importNames(b, head[2], head[3], head[4], head[5])
	starts := uint64(head[1])
	count, ok := u32(starts)
	if !ok {
		return nil, formatErr(off, "the chained fixups have their starts outside themselves")
	}
	var out []Pointer
	for i := range min(uint64(count), uint64(len(f.Segments))) {
		rel, ok := u32(starts + 4 + 4*i)
		if !ok {
			return nil, formatErr(off, "the chained fixups name %d segments and end before", count)
		}
		if rel == 0 {
			continue
		}
		at := starts + uint64(rel)
		if at > uint64(len(b)) || uint64(len(b))-at < 22 {
			return nil, formatErr(off, "the chains of segment %s lie outside the fixups", f.Segments[i].Name)
		}
		p := b[at:]
		c := chain{f: f, seg: &f.Segments[i], names: names, base: f.Base(), format: f.Order.Uint16(p[6:])}
		page, pages := uint64(f.Order.Uint16(p[4:])), int(f.Order.Uint16(p[20:]))
		if len(p) < 22+2*pages {
			return nil, formatErr(off, "the chains of segment %s name %d pages and end before", f.Segments[i].Name, pages)
		}
		if err := c.load(); err != nil {
			return nil, err
		}
		for j := range pages {
			if start := f.Order.Uint16(p[22+2*j:]); start < 0x8000 { // 0xffff: none
				out = c.walk(uint64(j)*page+uint64(start), out)
				if most := f.src.Room(perPointer); uint64(len(out)) > most {
					return nil, formatErr(off, "more than %d pointers in a file of %d bytes", most, f.src.Size)
				}
			}
		}
	}
	return out, nil
}

// importNames reads the names that bindings refer to by number.
func (f *File) importNames(b []byte, imports, symbols, count, format uint32) []string {
	size := map[uint32]uint64{1: 4, 2: 8, 3: 16}[format]
	if size == 0 || uint64(imports) > uint64(len(b)) || uint64(count) > (uint64(len(b))-uint64(imports))/size {
		return nil
	}
	if uint64(symbols) > uint64(len(b)) {
		return nil
	}
	text := string(b[symbols:]) // all names are parts of it
	names := make([]string, count)
	for i := range names {
		e := b[uint64(imports)+uint64(i)*size:]
		at := uint64(f.Order.Uint32(e) >> 9)
		if format == 3 {
			at = f.Order.Uint64(e) >> 32
		}
		if at < uint64(len(text)) {
			names[i], _, _ = strings.Cut(text[at:], "\x00")
		}
	}
	return names
}

// A chain walks one segment.
type chain struct {
	f      *File
	seg    *Segment
	names  []string
	base   uint64
	format uint16
	data   []byte
}

func (c *chain) load() (err error) {
	if c.data == nil {
		c.data, err = c.f.span(Span{c.seg.Off, c.seg.Filesz}, "segment "+c.seg.Name)
	}
	return err
}

// walk follows the chain from an offset in the segment.
func (c *chain) walk(at uint64, out []Pointer) []Pointer {
	for at+8 <= uint64(len(c.data)) && uint64(len(out)) <= c.f.src.Room(perPointer) {
		w := c.f.Order.Uint64(c.data[at:])
		p, step := c.decode(w)
		if p.Name != "" || p.To != 0 {
			p.Place = c.seg.Addr + at
			out = append(out, p)
		}
		if step == 0 {
			return out
		}
		at += step
	}
	return out
}

// decode reads one word, and the distance in bytes to the next of its chain.
func (c *chain) decode(w uint64) (p Pointer, step uint64) {
	name := func(ordinal uint64) string {
		if ordinal < uint64(len(c.names)) {
			return c.names[ordinal]
		}
		return ""
	}
	switch c.format {
	case ptr64, ptr64Offset:
		step = w >> 51 & 0xfff * 4
		if w>>63 != 0 {
			return Pointer{Name: name(w & 0xffffff)}, step
		}
		to := w & (1<<36 - 1)
		if c.format == ptr64Offset {
			to += c.base
		}
		return Pointer{To: to}, step
	case ptrArm64e, ptrArm64eUserland, ptrArm64eUserland24:
		step = w >> 51 & 0x7ff * 8
		auth, bind := w>>63 != 0, w>>62&1 != 0
		switch {
		case bind && c.format == ptrArm64eUserland24:
			return Pointer{Name: name(w & 0xffffff)}, step
		case bind:
			return Pointer{Name: name(w & 0xffff)}, step
		case auth:
			return Pointer{To: c.base + w&0xffffffff}, step
		}
		to := w & (1<<43 - 1)
		if c.format != ptrArm64e {
			to += c.base
		}
		return Pointer{To: to}, step
	}
	return Pointer{}, 0 // a format of another kind of program
}
