package abicheck

import (
	"bytes"
	"debug/elf"
	"debug/macho"
	"encoding/binary"

	"github.com/thox-ai/thoxbuild/abicheck/arfile"
	"github.com/thox-ai/thoxbuild/abicheck/machofile"
)

// kind is what a file's first bytes say it is.
type kind int

const (
	other kind = iota
	elfKind
	machoKind
	fatKind
	peKind
	arKind
	zipKind
	bitcodeKind // LLVM's, an object of -flto when its name or place says so
	hollowKind  // none of them under the name of a library; see hollow
)

// sniffLen is how many bytes sniff wants.
const sniffLen = 8

// sniff tells a file's kind by its first bytes. Anything else is not for us: a
// Python source, a data file. A name is looked at for what it promises alone.
func sniff(name string, head []byte) kind {
	if hollow(name, head) != "" {
		return hollowKind
	}
	if len(head) < 4 {
		return other
	}
	le, be := binary.LittleEndian.Uint32(head), binary.BigEndian.Uint32(head)
	switch {
	case string(head[:4]) == elf.ELFMAG:
		return elfKind
	case le == macho.Magic32 || le == macho.Magic64 || be == macho.Magic32 || be == macho.Magic64:
		return machoKind
	case machofile.IsFat(head):
		return fatKind
	case bytes.HasPrefix(head, []byte(arfile.Magic)), bytes.HasPrefix(head, []byte(arfile.ThinMagic)):
		return arKind
	case string(head[:4]) == "PK\x03\x04":
		return zipKind
	case string(head[:4]) == "BC\xc0\xde", le == 0x0b17c0de:
		return bitcodeKind
	case string(head[:2]) == "MZ":
		return peKind
	}
	return other
}
