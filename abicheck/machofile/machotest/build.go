// Package machotest makes small Mach-O files for tests, byte by byte, so that
// no binaries lie in the repository.
package machotest

import (
	"crypto/sha256"
	"debug/macho"
	"encoding/binary"

	"github.com/thox-ai/thoxbuild/abicheck/machofile"
)

var le = binary.LittleEndian

// Command is one load command: its number and the bytes after its header.
type Command struct {
	Cmd  uint32
	Body []byte
}

// Words writes 32-bit words.
func Words(v ...uint32) (b []byte) {
	for _, w := range v {
		b = le.AppendUint32(b, w)
	}
	return b
}

// Named is a command with a string at its end; head are the words between.
func Named(cmd uint32, name string, head ...uint32) Command {
	body := Words(append([]uint32{uint32(12 + 4*len(head))}, head...)...)
	body = append(append(body, name...), 0)
	for len(body)%8 != 0 {
		body = append(body, 0)
	}
	return Command{cmd, body}
}

// Signature is the command of a code signature. Dylib appends the signature
// that it announces.
func Signature() Command { return Command{0x1d, Words(0, 0)} }

// Dylib writes a 64-bit library with the commands and, when there are any
// symbols, a symbol table: name, type, description. With the command of
// Signature among the commands the library is signed without an identity.
func Dylib(cpu macho.Cpu, cmds []Command, syms ...machofile.Symbol) []byte {
	strs := []byte{0}
	var table []byte
	for _, s := range syms {
		table = le.AppendUint32(table, uint32(len(strs)))
		strs = append(append(strs, s.Name...), 0)
		table = append(table, s.Type, s.Sect)
		table = le.AppendUint64(le.AppendUint16(table, s.Desc), s.Value)
	}
	size := 0
	for _, c := range cmds {
		size += 8 + len(c.Body)
	}
	at := uint32(32 + size + 24)
	cmds = append(cmds, Command{2, Words(at, uint32(len(syms)), at+uint32(len(table)), uint32(len(strs)))})
	size += 24
	b := Words(macho.Magic64, uint32(cpu), 0, uint32(macho.TypeDylib), uint32(len(cmds)), uint32(size), 0, 0)
	signature := 0 // where its offset and size stand
	for _, c := range cmds {
		if c.Cmd == Signature().Cmd {
			signature = len(b) + 8
		}
		b = append(append(b, Words(c.Cmd, uint32(8+len(c.Body)))...), c.Body...)
	}
	b = append(append(b, table...), strs...)
	if signature == 0 {
		return b
	}
	for len(b)%16 != 0 {
		b = append(b, 0)
	}
	le.PutUint32(b[signature:], uint32(len(b)))
	le.PutUint32(b[signature+4:], uint32(len(sign(b))))
	return append(b, sign(b)...)
}

// sign is an embedded signature over b: a list of one code directory, with the
// SHA-256 of each page.
func sign(b []byte) []byte {
	const page, head = 4096, 44
	var hashes []byte
	for at := 0; at < len(b); at += page {
		h := sha256.Sum256(b[at:min(at+page, len(b))])
		hashes = append(hashes, h[:]...)
	}
	be := func(words ...uint32) (out []byte) {
		for _, w := range words {
			out = binary.BigEndian.AppendUint32(out, w)
		}
		return out
	}
	name := []byte("out.so\x00\x00")
	first := uint32(head + len(name))
	length := first + uint32(len(hashes))
	out := be(0xfade0cc0, 20+length, 1, 0, 20)
	out = append(out, be(0xfade0c02, length, 0x20400, 2, first, head, 0, uint32(len(hashes)/32), uint32(len(b)))...)
	out = append(out, 32, 2, 0, 12, 0, 0, 0, 0)
	return append(append(out, name...), hashes...)
}

// Fat writes a fat file of the members, page by page.
func Fat(members ...[]byte) []byte {
	be := binary.BigEndian
	b := be.AppendUint32(be.AppendUint32(nil, macho.MagicFat), uint32(len(members)))
	off := 4096
	var body []byte
	for _, m := range members {
		b = be.AppendUint32(b, le.Uint32(m[4:]))
		b = be.AppendUint32(b, 0)
		b = be.AppendUint32(be.AppendUint32(be.AppendUint32(b, uint32(off+len(body))), uint32(len(m))), 12)
		body = append(body, m...)
	}
	return append(append(b, make([]byte, off-len(b))...), body...)
}
