package elffile

import "debug/elf"

// Need is one version that the file asks of another library, whether or not a
// symbol uses it (GLIBC_ABI_DT_RELR has none).
type Need struct {
	Library string
	Version string
	// Weak means that a loader only warns when the version is missing.
	Weak bool
	// Index is what .gnu.version holds for symbols of this version.
	Index uint16
}

const (
	verHidden = 0x8000
	verMask   = 0x7fff
)

// Needs reads the versions that the file asks for, in file order.
func (f *File) Needs() ([]Need, error) {
	d, err := f.Dynamic()
	if d == nil || err != nil {
		return nil, err
	}
	addr, ok := d.Value(elf.DT_VERNEED)
	if !ok {
		return nil, nil
	}
	off, _, ok := f.Offset(addr)
	if !ok {
		return nil, formatErr(0, "the version needs at address 0x%x are not in the file", addr)
	}
	num, _ := d.Value(elf.DT_VERNEEDNUM)
	var needs []Need
	w, wAux := window{f: f}, window{f: f}
	// A version index has 15 bits, which bounds both walks.
	for i := range num {
		if i > verMask {
			return nil, formatErr(off, "more libraries with version needs than there are indices for")
		}
		b, err := w.bytes(off, 16)
		if err != nil {
			return nil, err
		}
		c := f.cursor(b)
		c.u16() // record version
		count, file, aux, next := c.u16(), c.u32(), c.u32(), c.u32()
		lib, ok := cString(d.strings, uint64(file))
		if !ok {
			return nil, formatErr(off, "version need names no library")
		}
		at := off + int64(aux)
		for range count {
			b, err := wAux.bytes(at, 16)
			if err != nil {
				return nil, err
			}
			c := f.cursor(b)
			c.u32() // hash
			flags, other, name, step := c.u16(), c.u16(), c.u32(), c.u32()
			version, ok := cString(d.strings, uint64(name))
			if !ok {
				return nil, formatErr(at, "version need of %s has no name", lib)
			}
			needs = append(needs, Need{lib, version, flags&2 != 0, other & verMask})
			if len(needs) > verMask {
				return nil, formatErr(at, "more version needs than there are indices for")
			}
			if step == 0 {
				break
			}
			at += int64(step)
		}
		if next == 0 {
			break
		}
		off += int64(next)
	}
	return needs, nil
}

// definitions maps version indices to the names that the file defines.
func (f *File) definitions(d *Dynamic) (map[uint16]string, error) {
	addr, ok := d.Value(elf.DT_VERDEF)
	if !ok {
		return nil, nil
	}
	off, _, ok := f.Offset(addr)
	if !ok {
		return nil, formatErr(0, "the version definitions at address 0x%x are not in the file", addr)
	}
	num, _ := d.Value(elf.DT_VERDEFNUM)
	defs := map[uint16]string{}
	w := window{f: f}
	for i := range num {
		if i > verMask {
			return nil, formatErr(off, "more version definitions than there are indices for")
		}
		b, err := w.bytes(off, 20)
		if err != nil {
			return nil, err
		}
		c := f.cursor(b)
		c.u16() // record version
		c.u16() // flags
		index, count := c.u16(), c.u16()
		c.u32() // hash
		aux, next := c.u32(), c.u32()
		if count > 0 {
			b, err := w.bytes(off+int64(aux), 8)
			if err != nil {
				return nil, err
			}
			name, ok := cString(d.strings, uint64(f.cursor(b).u32()))
			if !ok {
				return nil, formatErr(off, "version definition %d has no name", index)
			}
			defs[index&verMask] = name
		}
		if next == 0 {
			break
		}
		off += int64(next)
	}
	return defs, nil
}

// addVersions fills in the version of each dynamic symbol.
func (f *File) addVersions(d *Dynamic, syms []Symbol) error {
	addr, ok := d.Value(elf.DT_VERSYM)
	if !ok || len(syms) == 0 {
		return nil
	}
	needs, err := f.Needs()
	if err != nil {
		return err
	}
	defs, err := f.definitions(d)
	if err != nil {
		return err
	}
	byIndex := make(map[uint16]*Need, len(needs))
	for i := range needs {
		byIndex[needs[i].Index] = &needs[i]
	}
	off, room, ok := f.Offset(addr)
	if !ok || int64(len(syms))*2 > room {
		return formatErr(0, "the symbol versions at address 0x%x are not in the file", addr)
	}
	b := make([]byte, 2*len(syms))
	if err := f.src.Fill(b, off); err != nil {
		return err
	}
	for i := range syms {
		v := f.Order.Uint16(b[2*i:])
		s, index := &syms[i], v&verMask
		s.Hidden = v&verHidden != 0
		if index < 2 {
			continue // local, or global without a version
		}
		if n := byIndex[index]; n != nil && s.Undefined() {
			s.Version, s.Library = n.Version, n.Library
		} else if name, ok := defs[index]; ok {
			s.Version = name
		} else if n != nil {
			s.Version, s.Library = n.Version, n.Library // copy relocations
		} else {
			return formatErr(off+int64(2*i), "symbol %s has version index %d, which nothing defines", s.Name, index)
		}
	}
	return nil
}
