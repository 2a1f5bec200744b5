package machofile

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
)

// Magic numbers and fields of an embedded signature. Its numbers are big
// endian, whatever the file's are.
const (
	superBlobMagic     = 0xfade0cc0
	codeDirectoryMagic = 0xfade0c02
	maxBlobs           = 64
)

// VerifySignature compares the hashes of the code directory with the pages of
// the file. The kernel does the same before it maps a page, for every
// signature, that of no identity (ad hoc) included. Who signed is not looked
// at. A file without a signature gives nil; Signature tells the two apart.
func (f *File) VerifySignature() error {
	if !f.Signature {
		return nil
	}
	blob, err := f.span(f.signature, "code signature")
	if err != nil {
		return err
	}
	at := int64(f.signature.Off)
	word := func(b []byte, i int) uint64 {
		if len(b) < 4*i+4 {
			return 0
		}
		return uint64(binary.BigEndian.Uint32(b[4*i:]))
	}
	if word(blob, 0) != superBlobMagic || word(blob, 2) > maxBlobs {
		return formatErr(at, "the code signature is no list of blobs")
	}
	found := false
	for i := range int(word(blob, 2)) {
		off := word(blob, 4+2*i)
		if off > uint64(len(blob)) {
			return formatErr(at, "blob %d of the code signature lies outside it", i)
		}
		cd := blob[off:]
		if word(cd, 0) != codeDirectoryMagic {
			continue
		}
		if n := word(cd, 1); n < uint64(len(cd)) {
			cd = cd[:n]
		}
		found = true
		if err := f.verifyPages(cd, at+int64(off)); err != nil {
			return err
		}
	}
	if !found {
		return formatErr(at, "the code signature has no code directory")
	}
	return nil
}

func (f *File) verifyPages(cd []byte, at int64) error {
	if len(cd) < 44 {
		return formatErr(at, "the code directory is cut off")
	}
	be := binary.BigEndian
	hashes, slots, limit := uint64(be.Uint32(cd[16:])), uint64(be.Uint32(cd[28:])), uint64(be.Uint32(cd[32:]))
	size, kind, page := uint64(cd[36]), cd[37], uint64(1)<<min(cd[39], 32)
	var h hash.Hash
	switch {
	case kind == 1 && size == sha1.Size:
		h = sha1.New()
	case (kind == 2 && size == sha256.Size) || (kind == 3 && size == sha1.Size):
		h = sha256.New()
	default:
		return formatErr(at, "hashes of kind %d with %d bytes are not known", kind, size)
	}
	switch {
	case hashes+slots*size > uint64(len(cd)):
		return formatErr(at, "the code directory's %d hashes lie outside it", slots)
	case limit != f.signature.Off:
		return formatErr(at, "the code directory covers %d bytes, the signature begins at %d", limit, f.signature.Off)
	case slots != (limit+page-1)/page:
		return formatErr(at, "the code directory has %d hashes for %d bytes in pages of %d", slots, limit, page)
	}
	for i := range slots {
		b, err := f.span(Span{i * page, min(page, limit-i*page)}, "page")
		if err != nil {
			return err
		}
		h.Reset()
		h.Write(b)
		if want := cd[hashes+i*size:][:size]; !bytes.Equal(h.Sum(nil)[:size], want) {
			return fmt.Errorf("the %d bytes from 0x%x are not those that were signed", len(b), i*page)
		}
	}
	return nil
}
