package store

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" // git's pack checksum is SHA-1 by definition
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sort"
)

// packWriter collects the objects of one commit in a git pack, without deltas.
// One pack for a commit costs two synced files however many objects it has.
type packWriter struct {
	d     *disk
	t     *tempFile
	off   int64
	items []packItem
	have  map[ID]bool
	zw    *zlib.Writer
}

type packItem struct {
	id  ID
	crc uint32
	off int64
}

func newPackWriter(d *disk) (*packWriter, error) {
	t, err := d.temp()
	if err != nil {
		return nil, err
	}
	zw, err := zlib.NewWriterLevel(io.Discard, zlib.BestSpeed)
	if err != nil {
		return nil, err
	}
	w := &packWriter{d: d, t: t, have: map[ID]bool{}, zw: zw}
	// The count is patched in by finish.
	if err := w.raw([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00")); err != nil {
		t.discard()
		return nil, err
	}
	return w, nil
}

func (w *packWriter) raw(p []byte) error {
	n, err := w.t.Write(p)
	w.off += int64(n)
	return err
}

// add writes an object unless the pack has it.
func (w *packWriter) add(k Kind, data []byte) (ID, error) {
	id := HashObject(k, data)
	if w.have[id] {
		return id, nil
	}
	var b bytes.Buffer
	size := uint64(len(data))
	c := byte(k)<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		b.WriteByte(c | 0x80)
		c = byte(size & 0x7f)
	}
	b.WriteByte(c)
	w.zw.Reset(&b)
	if _, err := w.zw.Write(data); err != nil {
		return id, err
	}
	if err := w.zw.Close(); err != nil {
		return id, err
	}
	item := packItem{id: id, crc: crc32.ChecksumIEEE(b.Bytes()), off: w.off}
	if err := w.raw(b.Bytes()); err != nil {
		return id, err
	}
	w.items = append(w.items, item)
	w.have[id] = true
	return id, nil
}

// finish puts pack and index into dir and returns the pack's name without
// suffix. Readers look for the index, so it comes second.
func (w *packWriter) finish(dir string) (string, error) {
	defer w.t.discard()
	var count [4]byte
	binary.BigEndian.PutUint32(count[:], uint32(len(w.items)))
	if _, err := w.t.f.WriteAt(count[:], 8); err != nil {
		return "", err
	}
	h := sha1.New()
	if _, err := io.Copy(h, io.NewSectionReader(w.t.f, 0, w.off)); err != nil {
		return "", err
	}
	sum := h.Sum(nil)
	if err := w.raw(sum); err != nil {
		return "", err
	}
	name := fmt.Sprintf("pack-%x", sum)
	if err := w.t.commit(filepath.Join(dir, name+".pack")); err != nil {
		return "", err
	}
	return name, w.d.writeFile(filepath.Join(dir, name+".idx"), encodeIndex(w.items, sum), 0o444)
}

// encodeIndex writes git's index format, version 2.
func encodeIndex(items []packItem, packSum []byte) []byte {
	sort.Slice(items, func(i, j int) bool { return bytes.Compare(items[i].id[:], items[j].id[:]) < 0 })
	var fan [256]uint32
	for _, it := range items {
		fan[it.id[0]]++
	}
	out := []byte("\xfftOc\x00\x00\x00\x02")
	n := uint32(0)
	for _, c := range fan {
		n += c
		out = binary.BigEndian.AppendUint32(out, n)
	}
	for _, it := range items {
		out = append(out, it.id[:]...)
	}
	for _, it := range items {
		out = binary.BigEndian.AppendUint32(out, it.crc)
	}
	var wide []byte
	for _, it := range items {
		if it.off < 1<<31 {
			out = binary.BigEndian.AppendUint32(out, uint32(it.off))
			continue
		}
		out = binary.BigEndian.AppendUint32(out, 1<<31|uint32(len(wide)/8))
		wide = binary.BigEndian.AppendUint64(wide, uint64(it.off))
	}
	out = append(append(out, wide...), packSum...)
	sum := sha1.Sum(out)
	return append(out, sum[:]...)
}

// pack is an index in memory; the pack file itself is opened for each read, so
// that thousands of packs need no open files.
type pack struct {
	path string // of the .pack
	n    int
	idx  []byte
}

func openPack(idxPath string) (*pack, error) {
	b, err := os.ReadFile(idxPath)
	if err != nil {
		return nil, err
	}
	p := &pack{path: idxPath[:len(idxPath)-len(".idx")] + ".pack", idx: b}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(idxPath), err)
	}
	return p, nil
}

func (p *pack) check() error {
	b := p.idx
	if len(b) < 8+1024+40 || string(b[:8]) != "\xfftOc\x00\x00\x00\x02" {
		return fmt.Errorf("%w pack index", ErrCorrupt)
	}
	p.n = int(binary.BigEndian.Uint32(b[8+255*4:]))
	if p.n < 0 || p.n > (len(b)-8-1024-40)/28 {
		return fmt.Errorf("%w pack index: %d objects do not fit", ErrCorrupt, p.n)
	}
	if sum := sha1.Sum(b[:len(b)-20]); !bytes.Equal(sum[:], b[len(b)-20:]) {
		return fmt.Errorf("%w pack index: checksum", ErrCorrupt)
	}
	return nil
}

func (p *pack) id(i int) ID { return ID(p.idx[8+1024+20*i:][:20]) }

func (p *pack) offset(i int) (int64, error) {
	base := 8 + 1024 + 24*p.n
	off := binary.BigEndian.Uint32(p.idx[base+4*i:])
	if off < 1<<31 {
		return int64(off), nil
	}
	at := base + 4*p.n + 8*int(off&^(1<<31))
	if at+8 > len(p.idx)-40 {
		return 0, fmt.Errorf("%w pack index: wide offset", ErrCorrupt)
	}
	return int64(binary.BigEndian.Uint64(p.idx[at:])), nil
}

// search is the position of the first id that is not below id.
func (p *pack) search(id ID) int {
	return sort.Search(p.n, func(i int) bool {
		got := p.id(i)
		return bytes.Compare(got[:], id[:]) >= 0
	})
}

func (p *pack) find(id ID) (int64, bool, error) {
	i := p.search(id)
	if i == p.n || p.id(i) != id {
		return 0, false, nil
	}
	off, err := p.offset(i)
	return off, err == nil, err
}
