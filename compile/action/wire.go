package action

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// wire writes the protocol's messages and digests them. It writes the bytes
// that the generated types marshal to, fields in the order of their numbers
// and empty scalars left out, without making those types: a build with nothing
// to do spends its time here.
type wire struct {
	// blobs receives each message under its digest; nil when only the digests
	// are wanted.
	blobs map[Digest][]byte
	// free are buffers for messages that are being written.
	free [][]byte
	bad  string // the first text that is not UTF-8, which no message may hold
}

// wires keeps the buffers of writers that have done their work.
var wires = sync.Pool{New: func() any { return new(wire) }}

// begin returns an empty buffer.
func (w *wire) begin() []byte {
	if n := len(w.free); n > 0 {
		b := w.free[n-1]
		w.free = w.free[:n-1]
		return b
	}
	return make([]byte, 0, 1<<10)
}

// end digests a message that was written into a buffer of begin.
func (w *wire) end(b []byte) Digest {
	d := DigestOf(b)
	if w.blobs != nil {
		if _, ok := w.blobs[d]; !ok {
			w.blobs[d] = slices.Clone(b)
		}
	}
	w.free = append(w.free, b[:0])
	return d
}

// text appends a string field. A single string is left out when it is empty, an
// element of a list is not.
func (w *wire) text(b []byte, field protowire.Number, s string, element bool) []byte {
	if s == "" && !element {
		return b
	}
	if w.bad == "" && !utf8.ValidString(s) {
		w.bad = s
	}
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendString(b, s)
}

// digest appends a field of type Digest.
func (w *wire) digest(b []byte, field protowire.Number, d Digest) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(sizeOfDigest(d)))
	b = protowire.AppendTag(b, 1, protowire.BytesType)
	b = protowire.AppendVarint(b, 2*sha256.Size)
	b = hex.AppendEncode(b, d.Hash[:])
	if d.Size != 0 {
		b = protowire.AppendTag(b, 2, protowire.VarintType)
		b = protowire.AppendVarint(b, uint64(d.Size))
	}
	return b
}

func sizeOfDigest(d Digest) int {
	n := protowire.SizeTag(1) + protowire.SizeBytes(2*sha256.Size)
	if d.Size != 0 {
		n += protowire.SizeTag(2) + protowire.SizeVarint(uint64(d.Size))
	}
	return n
}

// pairs appends a list of messages of a name (1) and a value (2), sorted by
// name: environment variables and platform properties.
func (w *wire) pairs(b []byte, field protowire.Number, m map[string]string, names []string) []byte {
	for _, name := range names {
		value := m[name]
		n := 0
		for _, s := range [...]string{name, value} {
			if s != "" {
				n += protowire.SizeTag(1) + protowire.SizeBytes(len(s))
			}
		}
		b = protowire.AppendTag(b, field, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(n))
		b = w.text(b, 1, name, false)
		b = w.text(b, 2, value, false)
	}
	return b
}

// platform appends a field of type Platform.
func (w *wire) platform(b []byte, field protowire.Number, m map[string]string, names []string) []byte {
	inner := w.pairs(w.begin(), 1, m, names)
	b = protowire.AppendTag(b, field, protowire.BytesType)
	b = protowire.AppendBytes(b, inner)
	w.free = append(w.free, inner[:0])
	return b
}

// command is the message Command; outputs are sorted.
func (w *wire) command(s *Spec, outputs, properties []string) Digest {
	b := w.begin()
	for _, a := range s.Args {
		b = w.text(b, 1, a, true)
	}
	b = w.pairs(b, 2, s.Env, sortedKeys(s.Env))
	// Servers older than API 2.2 read the platform from here; newer ones from
	// the Action.
	b = w.platform(b, 5, s.Platform, properties)
	for _, o := range outputs {
		b = w.text(b, 7, o, true)
	}
	return w.end(b)
}

// action is the message Action.
func (w *wire) action(command, root Digest, platform map[string]string, properties []string) Digest {
	b := w.digest(w.begin(), 1, command)
	b = w.digest(b, 2, root)
	b = protowire.AppendTag(b, 9, protowire.BytesType)
	b = protowire.AppendBytes(b, salt)
	return w.end(w.platform(b, 10, platform, properties))
}

// directory is the message Directory for files that all begin with the first
// skip bytes; they are sorted by comparePaths and none is in another's way.
func (w *wire) directory(files []File, skip int) Digest {
	b := w.begin()
	type folder struct {
		name        string
		first, last int
	}
	var folders []folder
	for i, f := range files {
		name, _, nested := strings.Cut(f.Path[skip:], "/")
		if !nested {
			n := sizeOfDigest(f.Digest)
			n = protowire.SizeTag(1) + protowire.SizeBytes(len(name)) + protowire.SizeTag(2) + protowire.SizeBytes(n)
			if f.Exec {
				n += protowire.SizeTag(4) + protowire.SizeVarint(1)
			}
			b = protowire.AppendTag(b, 1, protowire.BytesType)
			b = protowire.AppendVarint(b, uint64(n))
			b = w.text(b, 1, name, false)
			b = w.digest(b, 2, f.Digest)
			if f.Exec {
				b = protowire.AppendTag(b, 4, protowire.VarintType)
				b = protowire.AppendVarint(b, 1)
			}
			continue
		}
		if n := len(folders); n > 0 && folders[n-1].name == name {
			folders[n-1].last = i
			continue
		}
		folders = append(folders, folder{name, i, i})
	}
	for _, d := range folders {
		digest := w.directory(files[d.first:d.last+1], skip+len(d.name)+1)
		b = protowire.AppendTag(b, 2, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(protowire.SizeTag(1)+protowire.SizeBytes(len(d.name))+protowire.SizeTag(2)+protowire.SizeBytes(sizeOfDigest(digest))))
		b = w.text(b, 1, d.name, false)
		b = w.digest(b, 2, digest)
	}
	return w.end(b)
}

// tree writes files as the protocol's Merkle tree of Directory messages and
// returns the root's digest. The order of files does not matter; the same path
// twice must carry the same content.
func (w *wire) tree(files []File, outputs []string) (Digest, error) {
	for _, f := range files {
		if err := checkPath(f.Path); err != nil {
			return Digest{}, fmt.Errorf("input: %w", err)
		}
	}
	if !slices.IsSortedFunc(files, compareFiles) {
		files = slices.Clone(files)
		slices.SortFunc(files, compareFiles)
	}
	for i := 1; i < len(files); i++ {
		one, two := files[i-1], files[i]
		if one.Path == two.Path && one != two {
			return Digest{}, fmt.Errorf("input %q: two different files at one path", one.Path)
		}
		if strings.HasPrefix(two.Path, one.Path) && two.Path[len(one.Path):][:min(1, len(two.Path)-len(one.Path))] == "/" {
			return Digest{}, fmt.Errorf("input %q: %q is a file and a folder", two.Path, one.Path)
		}
	}
	for i := 1; i < len(files); i++ {
		if files[i-1] == files[i] {
			files = slices.Compact(slices.Clone(files))
			break
		}
	}
	for _, o := range outputs {
		if err := checkOutput(files, o); err != nil {
			return Digest{}, err
		}
	}
	return w.directory(files, 0), nil
}

func compareFiles(a, b File) int { return comparePaths(a.Path, b.Path) }

// comparePaths orders paths as their folders are ordered by name, whatever
// bytes smaller than the slash stand in a name.
func comparePaths(a, b string) int {
	for i := range min(len(a), len(b)) {
		if x, y := a[i], b[i]; x != y {
			switch {
			case x == '/':
				return -1
			case y == '/':
				return 1
			}
			return cmp.Compare(x, y)
		}
	}
	return cmp.Compare(len(a), len(b))
}

// checkOutput reports an input that lies in the way of an output. The protocol
// makes the folders of outputs before the command runs, so such an input would
// fail late and with the server's words.
func checkOutput(files []File, output string) error {
	for p := output; p != "."; p = path.Dir(p) {
		if _, ok := slices.BinarySearchFunc(files, p, func(f File, p string) int { return comparePaths(f.Path, p) }); ok {
			return fmt.Errorf("output %q: the input %q lies in its way", output, path.Base(p))
		}
	}
	i, _ := slices.BinarySearchFunc(files, output+"/", func(f File, p string) int { return comparePaths(f.Path, p) })
	if i < len(files) && strings.HasPrefix(files[i].Path, output+"/") {
		return fmt.Errorf("output %q: is a folder of inputs", output)
	}
	return nil
}
