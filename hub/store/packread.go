package store

import (
	"bufio"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// maxObject bounds what an object may claim to unpack to. Blobs of the store
// stay far below it, as large files live outside git.
const maxObject = 256 << 20

// objects reads a repository's packs.
type objects struct {
	dir   string
	mu    sync.RWMutex
	packs []*pack // newest last
}

// reload reads the indexes again; packs that are known already stay.
func (o *objects) reload() error {
	ents, err := os.ReadDir(o.dir)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	known := map[string]*pack{}
	for _, p := range o.packs {
		known[p.path] = p
	}
	var packs []*pack
	for _, e := range ents {
		stem, ok := strings.CutSuffix(e.Name(), ".idx")
		if !ok {
			continue
		}
		p := known[filepath.Join(o.dir, stem+".pack")]
		if p == nil {
			if p, err = openPack(filepath.Join(o.dir, e.Name())); err != nil {
				return err
			}
		}
		packs = append(packs, p)
	}
	o.packs = packs
	return nil
}

func (o *objects) list() []*pack {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.packs
}

func (o *objects) has(id ID) bool {
	for _, p := range o.list() {
		if _, ok, _ := p.find(id); ok {
			return true
		}
	}
	return false
}

// open finds an object and reads its header. The caller closes the file.
func (o *objects) open(id ID) (f *os.File, br *bufio.Reader, k Kind, size int64, err error) {
	for attempt := range 2 {
		for _, p := range slices.Backward(o.list()) {
			off, ok, err := p.find(id)
			if err != nil {
				return nil, nil, 0, 0, err
			}
			if !ok {
				continue
			}
			f, err := os.Open(p.path)
			if errors.Is(err, fs.ErrNotExist) && attempt == 0 {
				break // repacked under our feet: look again
			}
			if err != nil {
				return nil, nil, 0, 0, err
			}
			br := bufio.NewReader(io.NewSectionReader(f, off, math.MaxInt64-off))
			k, size, err := packHeader(br)
			if err != nil {
				f.Close()
				return nil, nil, 0, 0, fmt.Errorf("object %s in %s: %w", id, filepath.Base(p.path), err)
			}
			return f, br, k, size, nil
		}
		if attempt == 0 {
			if err := o.reload(); err != nil {
				return nil, nil, 0, 0, err
			}
		}
	}
	return nil, nil, 0, 0, fmt.Errorf("%s: %w", id, ErrNoObject)
}

func packHeader(r io.ByteReader) (Kind, int64, error) {
	c, err := r.ReadByte()
	if err != nil {
		return 0, 0, fmt.Errorf("%w pack: %w", ErrCorrupt, err)
	}
	k, size := Kind(c>>4&7), int64(c&15)
	for shift := 4; c&0x80 != 0; shift += 7 {
		if c, err = r.ReadByte(); err != nil || shift > 39 {
			return 0, 0, fmt.Errorf("%w pack: object header", ErrCorrupt)
		}
		size |= int64(c&0x7f) << shift
	}
	if k < CommitObject || k > BlobObject {
		return 0, 0, fmt.Errorf("%w pack: object type %d", ErrCorrupt, k)
	}
	if size > maxObject {
		return 0, 0, fmt.Errorf("%w pack: object of %d bytes", ErrCorrupt, size)
	}
	return k, size, nil
}

// read returns an object whose bytes have been checked against its id.
func (o *objects) read(id ID, want Kind) ([]byte, error) {
	f, br, k, size, err := o.open(id)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if k != want {
		return nil, fmt.Errorf("object %s is a %s, not a %s: %w", id, k, want, ErrNoObject)
	}
	zr, err := zlib.NewReader(br)
	if err != nil {
		return nil, fmt.Errorf("%w object %s: %w", ErrCorrupt, id, err)
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(zr, data); err != nil {
		return nil, fmt.Errorf("%w object %s: %w", ErrCorrupt, id, err)
	}
	if HashObject(k, data) != id {
		return nil, fmt.Errorf("%w object %s: its bytes have another id", ErrCorrupt, id)
	}
	return data, nil
}

// size is an object's length without unpacking it.
func (o *objects) size(id ID) (int64, error) {
	f, _, _, n, err := o.open(id)
	if err != nil {
		return 0, err
	}
	return n, f.Close()
}

// byPrefix lists ids that start with the hex digits, at most two of them.
func (o *objects) byPrefix(hexPrefix string) []ID {
	full := hexPrefix + strings.Repeat("0", 40-len(hexPrefix))
	from, err := ParseID(full)
	if err != nil {
		return nil
	}
	var ids []ID
	for _, p := range o.list() {
		for i := p.search(from); i < p.n && strings.HasPrefix(p.id(i).String(), hexPrefix); i++ {
			if !slices.Contains(ids, p.id(i)) {
				ids = append(ids, p.id(i))
			}
		}
	}
	return ids
}
