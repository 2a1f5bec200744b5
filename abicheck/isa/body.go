package isa

import (
	"crypto/sha256"

	"github.com/thox-ai/thoxbuild/abicheck/isa/x86"
)

// bodyHash is the digest of a function's code without what a linker fills in.
type bodyHash [16]byte

// hash digests function i: branches that leave it and RIP-relative
// displacements count as zero, and the forms that a linker relaxes GOT accesses
// to count as the original ones, so that the same source function has one
// hash in its object and in the linked file. ok is false for an empty body.
//
// Functions of Mach-O files have no size: what is put between them does not
// count. There a linker may also make other instructions of those that load an
// address on AArch64, so they count as one.
func (im *image) hash(i int) (h bodyHash, ok bool) {
	f := &im.fns[i]
	b := im.code(f)
	if im.macho {
		b = im.trim(b)
	}
	if len(b) == 0 {
		return h, false
	}
	d := sha256.New()
	if im.machine != machineX86 {
		hashA64(d, b, f, im.macho)
	} else {
		hashX86(d, b, f)
	}
	copy(h[:], d.Sum(nil))
	return h, true
}

type writer interface{ Write([]byte) (int, error) }

func hashX86(d writer, b []byte, f *function) {
	var in x86.Inst
	var buf [16]byte
	for at := 0; at < len(b); {
		if !in.Decode(b[at:]) {
			d.Write(b[at : at+1])
			at++
			continue
		}
		n := int(in.Len)
		pc := f.addr + uint64(at)
		c := buf[:copy(buf[:], b[at:at+n])]
		rip := in.Flags&x86.IsRIP != 0
		if rip {
			clear(c[in.DispOff : in.DispOff+in.DispLen])
		}
		direct := in.Flow == x86.FlowCall || in.Flow == x86.FlowJmp || in.Flow == x86.FlowJcc
		if direct && in.ImmLen >= 4 {
			if to := in.Target(pc); to < f.addr || to >= f.end() {
				clear(c[in.ImmOff : in.ImmOff+in.ImmLen])
				direct = false
			}
		}
		switch {
		case in.Map == 0 && in.Op == 0x8b && rip:
			c[in.DispOff-2] = 0x8d // mov foo@GOTPCREL -> lea foo
		case in.Map == 0 && in.Op == 0xff && rip && in.Flow == x86.FlowCallInd:
			c = append(c[:0], 0x67, 0xe8, 0, 0, 0, 0) // call *foo@GOTPCREL -> addr32 call foo
		case in.Map == 0 && in.Op == 0xff && rip && in.Flow == x86.FlowJmpInd:
			c = append(c[:0], 0xe9, 0, 0, 0, 0, 0x90) // jmp *foo@GOTPCREL -> jmp foo; nop
		}
		d.Write(c)
		at += n
	}
}

func hashA64(d writer, b []byte, f *function, macho bool) {
	for at := 0; at+4 <= len(b); at += 4 {
		w := uint32(b[at]) | uint32(b[at+1])<<8 | uint32(b[at+2])<<16 | uint32(b[at+3])<<24
		switch {
		case macho && addresses(w):
			w = 0
		case w&0x7c000000 == 0x14000000: // b, bl
			to := f.addr + uint64(at) + uint64(int64(int32(w<<6)>>4))
			if to < f.addr || to >= f.end() {
				w &= 0xfc000000
			}
		case w&0x1f000000 == 0x10000000: // adr, adrp
			w &= 0x9f00001f
		case w&0x7f800000 == 0x11000000: // add by immediate: the low half of an address
			w &= 0xffc003ff
		case w&0x3b000000 == 0x39000000: // load or store with an unsigned offset
			w &= 0xffc003ff
		}
		d.Write([]byte{byte(w), byte(w >> 8), byte(w >> 16), byte(w >> 24)})
	}
}

// addresses reports whether w may be part of loading an address or what lies
// there: adr, adrp, add, a load or store with an offset, or a literal; or the
// nop that a linker leaves of one.
func addresses(w uint32) bool {
	return w&0x1f000000 == 0x10000000 || w&0x7f800000 == 0x11000000 || w&0x3b000000 == 0x39000000 ||
		w&0x3b000000 == 0x18000000 || w == 0xd503201f
}

// trim cuts padding off the end of code.
func (im *image) trim(b []byte) []byte {
	if im.machine != machineX86 {
		for n := len(b) &^ 3; n >= 4 && im.padding(b[n-4:n]); n -= 4 {
			b = b[:n-4]
		}
		return b
	}
	var in x86.Inst
	end := 0
	for at := 0; at < len(b); {
		n := 1
		if in.Decode(b[at:]) {
			n = int(in.Len)
		}
		if !im.padding(b[at : at+n]) {
			end = at + n
		}
		at += n
	}
	return b[:end]
}
