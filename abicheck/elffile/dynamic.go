package elffile

import (
	"debug/elf"
	"io"
)

// Dynamic is what the dynamic section tells a loader.
type Dynamic struct {
	Needed  []string
	Soname  string
	Rpath   []string // every DT_RPATH as it stands, not split
	Runpath []string
	Flags   elf.DynFlag
	Flags1  elf.DynFlag1
	// TextRel is DT_TEXTREL or DF_TEXTREL.
	TextRel bool
	// BindNow is DT_BIND_NOW, DF_BIND_NOW or DF_1_NOW.
	BindNow bool
	// Values holds every tag's values in file order.
	Values map[elf.DynTag][]uint64

	strings string
}

// Value returns the first value of a tag.
func (d *Dynamic) Value(t elf.DynTag) (uint64, bool) {
	v := d.Values[t]
	if len(v) == 0 {
		return 0, false
	}
	return v[0], true
}

// Dynamic reads the dynamic section through PT_DYNAMIC. A file without one
// gives nil.
func (f *File) Dynamic() (*Dynamic, error) { return f.dyn() }

func (f *File) readDynamic() (*Dynamic, error) {
	var p *Prog
	for i := range f.Progs {
		if f.Progs[i].Type == elf.PT_DYNAMIC {
			p = &f.Progs[i]
			break
		}
	}
	if p == nil {
		return nil, nil
	}
	b, err := f.src.Bytes(p.Off, p.Filesz, "dynamic section")
	if err != nil {
		return nil, err
	}
	d := &Dynamic{Values: map[elf.DynTag][]uint64{}}
	type entry struct {
		tag elf.DynTag
		val uint64
	}
	var named []entry
	c := f.cursor(b)
	for len(c.b) > 0 {
		tag, val := elf.DynTag(c.addr()), c.addr()
		if tag == elf.DT_NULL {
			break
		}
		d.Values[tag] = append(d.Values[tag], val)
		switch tag {
		case elf.DT_NEEDED, elf.DT_SONAME, elf.DT_RPATH, elf.DT_RUNPATH:
			named = append(named, entry{tag, val})
		case elf.DT_TEXTREL:
			d.TextRel = true
		case elf.DT_BIND_NOW:
			d.BindNow = true
		case elf.DT_FLAGS:
			d.Flags |= elf.DynFlag(val)
		case elf.DT_FLAGS_1:
			d.Flags1 |= elf.DynFlag1(val)
		}
	}
	d.TextRel = d.TextRel || d.Flags&elf.DF_TEXTREL != 0
	d.BindNow = d.BindNow || d.Flags&elf.DF_BIND_NOW != 0 || d.Flags1&elf.DF_1_NOW != 0
	if err := f.readDynStrings(d); err != nil {
		return nil, err
	}
	for _, e := range named {
		s, ok := cString(d.strings, e.val)
		if !ok {
			return nil, formatErr(int64(p.Off), "%v points outside the string table", e.tag)
		}
		switch e.tag {
		case elf.DT_NEEDED:
			d.Needed = append(d.Needed, s)
		case elf.DT_SONAME:
			d.Soname = s
		case elf.DT_RPATH:
			d.Rpath = append(d.Rpath, s)
		case elf.DT_RUNPATH:
			d.Runpath = append(d.Runpath, s)
		}
	}
	return d, nil
}

func (f *File) readDynStrings(d *Dynamic) error {
	addr, ok := d.Value(elf.DT_STRTAB)
	if !ok {
		return nil
	}
	size, _ := d.Value(elf.DT_STRSZ)
	off, n, ok := f.Offset(addr)
	if !ok || size > uint64(n) {
		return formatErr(0, "the string table at address 0x%x (%d bytes) is not in the file", addr, size)
	}
	var err error
	d.strings, err = readText(io.NewSectionReader(f.src.R, off, int64(size)))
	return err
}

// A check may take the file's size and 64 MB of memory. A symbol needs
// perSymbol bytes of that, with what the rules make of it; the names, code and
// hash entries of a real one fill hundreds of bytes of the file too.
const perSymbol = 1000

// Room is how many things a check may keep that take each bytes of memory, for
// one kind of them to stay within the file's size and 64 MB.
func (f *File) Room(each int) uint64 { return f.src.Room(each) }

// readDynSymbols finds the dynamic symbols as a loader does. The table has no
// length of its own: it is the larger of what the hash tables reach and what
// the section header of the same address says, so that neither can hide one.
func (f *File) readDynSymbols() ([]Symbol, error) {
	d, err := f.Dynamic()
	if d == nil || err != nil {
		return nil, err
	}
	addr, ok := d.Value(elf.DT_SYMTAB)
	if !ok {
		return nil, nil
	}
	off, room, ok := f.Offset(addr)
	if !ok {
		return nil, formatErr(0, "the symbol table at address 0x%x is not in the file", addr)
	}
	n, err := f.dynSymCount(d, addr)
	if err != nil {
		return nil, err
	}
	if n > uint64(room)/f.symSize() {
		return nil, formatErr(off, "%d dynamic symbols reach past their segment", n)
	}
	if room := f.Room(perSymbol); n > room {
		return nil, formatErr(off, "%d dynamic symbols: a file of %d bytes is read with %d at most", n, f.src.Size, room)
	}
	data := make([]byte, n*f.symSize())
	if err := f.src.Fill(data, off); err != nil {
		return nil, err
	}
	syms, err := f.decodeSymbols(data, d.strings, nil)
	if err != nil {
		return nil, err
	}
	return syms, f.addVersions(d, syms)
}

func (f *File) dynSymCount(d *Dynamic, addr uint64) (n uint64, err error) {
	for i := range f.Sections {
		s := &f.Sections[i]
		if s.Type == elf.SHT_DYNSYM && s.Addr == addr {
			n = s.Size / f.symSize()
		}
	}
	if h, ok := d.Value(elf.DT_HASH); ok {
		var b [8]byte
		if err := f.ReadAddr(b[:], h); err != nil {
			return 0, err
		}
		n = max(n, uint64(f.Order.Uint32(b[4:])))
	}
	if h, ok := d.Value(elf.DT_GNU_HASH); ok {
		m, err := f.gnuHashCount(h)
		if err != nil {
			return 0, err
		}
		n = max(n, m)
	}
	return n, nil
}

// gnuHashCount finds the end of the last chain of a GNU hash table.
func (f *File) gnuHashCount(addr uint64) (uint64, error) {
	off, room, ok := f.Offset(addr)
	if !ok || room < 16 {
		return 0, formatErr(0, "the hash table at address 0x%x is not in the file", addr)
	}
	head := make([]byte, 16)
	if err := f.src.Fill(head, off); err != nil {
		return 0, err
	}
	c := f.cursor(head)
	buckets, first, bloom := uint64(c.u32()), uint64(c.u32()), uint64(c.u32())
	word := uint64(8)
	if !f.Is64() {
		word = 4
	}
	at := 16 + bloom*word
	if at > uint64(room) || buckets*4 > uint64(room)-at {
		return 0, formatErr(off, "hash table of %d buckets reaches past its segment", buckets)
	}
	b := make([]byte, buckets*4)
	if err := f.src.Fill(b, off+int64(at)); err != nil {
		return 0, err
	}
	var last uint64
	for i := uint64(0); i < buckets; i++ {
		last = max(last, uint64(f.Order.Uint32(b[i*4:])))
	}
	if last < first {
		return first, nil // nothing defined: only what lies before the hashed part
	}
	at += buckets * 4
	w := window{f: f}
	for ; ; last++ {
		pos := at + (last-first)*4
		if pos+4 > uint64(room) {
			return 0, formatErr(off, "hash chain without an end")
		}
		b, err := w.bytes(off+int64(pos), 4)
		if err != nil {
			return 0, err
		}
		if f.Order.Uint32(b)&1 != 0 {
			return last + 1, nil
		}
	}
}

// window reads small records from a place that moves forward, one pread for
// many of them.
type window struct {
	f    *File
	base int64
	buf  []byte
}

const windowSize = 16 << 10

// bytes returns n bytes at off; they are valid until the next call.
func (w *window) bytes(off int64, n int) ([]byte, error) {
	if off < w.base || off+int64(n) > w.base+int64(len(w.buf)) {
		size := min(int64(max(n, windowSize)), w.f.src.Size-off)
		if off < 0 || size < int64(n) {
			return nil, formatErr(off, "record of %d bytes reaches past the end of the file", n)
		}
		if int64(cap(w.buf)) < size {
			w.buf = make([]byte, size)
		}
		w.buf, w.base = w.buf[:size], off
		if err := w.f.src.Fill(w.buf, off); err != nil {
			return nil, err
		}
	}
	return w.buf[off-w.base:][:n], nil
}
