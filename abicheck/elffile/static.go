package elffile

import (
	"bytes"
	"unsafe"

	"github.com/thox-ai/thoxbuild/internal/offheap"
)

// SymbolCount is how many symbols EachSymbol shows.
func (f *File) SymbolCount() int {
	tab, _, _, err := f.staticTables()
	if tab == nil || err != nil {
		return 0
	}
	return int(tab.Size / f.symSize())
}

// EachSymbol calls do for each symbol of .symtab, index 0 included, as Symbols
// lists them, and keeps nothing: with its names the table of a large library
// takes more than a hundred megabytes. An error comes before the first call.
// The symbol and its name are gone when do returns: strings.Clone keeps a name.
func (f *File) EachSymbol(do func(i int, s *Symbol)) error {
	tab, strs, ext, err := f.staticTables()
	if tab == nil || err != nil {
		return err
	}
	var arena offheap.Arena
	defer arena.Free()
	data, err := f.mapped(&arena, tab)
	if err != nil {
		return err
	}
	text, err := f.mapped(&arena, strs)
	if err != nil {
		return err
	}
	var wide []byte
	if ext != nil {
		if wide, err = f.mapped(&arena, ext); err != nil {
			return err
		}
	}
	size := int(f.symSize())
	n := len(data) / size
	last := bytes.LastIndexByte(text, 0) // behind it no name ends
	for i := range n {
		if at := f.Order.Uint32(data[i*size:]); at != 0 && int64(at) > int64(last) {
			return outside(i, at, len(text))
		}
	}
	names := unsafe.String(unsafe.SliceData(text), len(text))
	var s Symbol
	for i := range n {
		s = Symbol{}
		if at := f.decodeSymbol(&s, i, data[i*size:], wide); at != 0 {
			s.Name, _ = cString(names, uint64(at))
		}
		do(i, &s)
	}
	return nil
}

// mapped is Data outside the heap.
func (f *File) mapped(a *offheap.Arena, s *Section) ([]byte, error) {
	sr, err := f.Reader(s)
	if err != nil {
		return nil, err
	}
	b, err := offheap.Make[byte](a, int(sr.Size()))
	if err != nil || len(b) == 0 {
		return nil, err
	}
	return b, f.src.Fill(b, int64(s.Offset))
}

// longestName is far above any name of a compiler's.
const longestName = 1 << 20

// SymbolName reads the name of symbol i of .symtab, longestName bytes of it at
// most. It is for the few symbols that a finding names.
func (f *File) SymbolName(i int) (string, error) {
	tab, strs, _, err := f.staticTables()
	if err != nil {
		return "", err
	}
	size := f.symSize()
	if tab == nil || i < 0 || uint64(i) >= tab.Size/size {
		return "", formatErr(0, "no symbol %d", i)
	}
	sr, err := f.Reader(tab)
	if err != nil {
		return "", err
	}
	var word [4]byte
	if _, err := sr.ReadAt(word[:], int64(uint64(i)*size)); err != nil {
		return "", err
	}
	if sr, err = f.Reader(strs); err != nil {
		return "", err
	}
	at := int64(f.Order.Uint32(word[:]))
	if at == 0 {
		return "", nil
	}
	var name []byte
	for buf := make([]byte, 256); len(name) < longestName; {
		n, err := sr.ReadAt(buf, at+int64(len(name)))
		if end := bytes.IndexByte(buf[:n], 0); end >= 0 {
			return string(append(name, buf[:end]...)), nil
		}
		if name = append(name, buf[:n]...); err != nil {
			return "", outside(i, uint32(at), int(sr.Size()))
		}
	}
	return string(name), nil
}
