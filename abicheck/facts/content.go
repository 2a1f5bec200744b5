package facts

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/abicheck/elffile"
	"github.com/thox-ai/thoxbuild/abicheck/rule"
)

var contentPass = rule.Pass{
	Name: "content",
	Run:  checkContent,
	Rules: []rule.Info{{
		ID: "PATHS", Severity: rule.Warning,
		Title: "holds paths of the build machine",
		Explain: `__FILE__, which TORCH_CHECK puts into messages, and assertions leave absolute
paths in the file's data. They show user names and folders of whoever built it,
and make two builds from different folders differ.

Strings that begin with a folder of homes, builds or temporary files are
counted in everything that is loaded and not executable.

Compile with -ffile-prefix-map=$PWD=. or -fmacro-prefix-map.`,
	}, {
		ID: "BUILDID", Severity: rule.Note,
		Title: "has no build id",
		Explain: `A build id ties a stripped file to its debug data and to crash reports. A kernel
that is published with the digest of every file has a better name already, so
this is only a note. Link with -Wl,--build-id=sha1.`,
	}},
}

// buildRoots are how paths of build machines begin.
var buildRoots = [][]byte{
	[]byte("/home/"), []byte("/root/"), []byte("/Users/"), []byte("/tmp/"), []byte("/build/"), []byte("/builds/"),
	[]byte("/nix/store/"), []byte("/__w/"), []byte("/workspace/"), []byte("/github/"), []byte("/project/"), []byte("/mnt/"),
	[]byte("/var/tmp/"), []byte("/private/"), []byte("/buildbot/"), []byte("/jenkins/"), []byte("/usr/src/"), []byte("/opt/conda/conda-bld/"),
}

func checkContent(ctx context.Context, s *rule.Subject, _ *rule.Options) ([]rule.Finding, error) {
	if !linked(s) {
		return nil, nil
	}
	c := collect(s)
	spans := dataSpans(s.ELF)
	var p paths
	for _, sp := range spans {
		if err := p.scan(ctx, s.Data, sp); err != nil {
			return nil, err
		}
	}
	if p.count > 0 {
		slices.Sort(p.examples)
		f := c.add("PATHS", rule.Warning, fmt.Sprintf("holds %d paths of the build machine", p.count),
			"compile with -ffile-prefix-map=<folder>=.", "such as "+listed(p.examples, 3))
		f.Section = p.section
		f.Offset, f.HasOffset = p.offset, true
	}
	if id := s.ELF.BuildID(); len(id) == 0 {
		c.add("BUILDID", rule.Note, "has no build id", "link with -Wl,--build-id=sha1 if debug data is kept apart")
	}
	return c.done(), nil
}

// span is a part of the file to search for strings.
type span struct {
	section  string
	off, end int64
}

// dataSpans lists the loaded, not executable parts without overlap, so that
// no layout of headers makes the search longer than the file. Tables that
// hold no text, device code and unwind data are left out where section
// headers tell.
func dataSpans(f *elffile.File) []span {
	var spans []span
	size := uint64(f.Size())
	add := func(name string, off, n uint64) {
		if off < size && n > 0 {
			spans = append(spans, span{name, int64(off), int64(min(off+min(n, size), size))})
		}
	}
	for i := range f.Sections {
		s := &f.Sections[i]
		if s.Type != elf.SHT_PROGBITS || s.Flags&elf.SHF_ALLOC == 0 || s.Flags&elf.SHF_EXECINSTR != 0 || textless(s.Name) {
			continue
		}
		add(s.Name, s.Offset, s.Size)
	}
	if len(f.Sections) == 0 {
		// The dynamic strings hold search paths, which have their own rule.
		strs, n := dynStrings(f)
		for i := range f.Progs {
			p := &f.Progs[i]
			if p.Type != elf.PT_LOAD || p.Flags&elf.PF_X != 0 {
				continue
			}
			if end := p.Off + min(p.Filesz, size); n > 0 && strs >= p.Off && strs+n <= end {
				add("", p.Off, strs-p.Off)
				add("", strs+n, end-strs-n)
			} else {
				add("", p.Off, p.Filesz)
			}
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return int(min(max(a.off-b.off, -1), 1)) })
	out := spans[:0]
	var end int64
	for _, s := range spans {
		if s.off = max(s.off, end); s.off < s.end {
			out = append(out, s)
			end = s.end
		}
	}
	return out
}

// dynStrings is the place of the dynamic string table in the file.
func dynStrings(f *elffile.File) (off, n uint64) {
	d, err := f.Dynamic()
	if d == nil || err != nil {
		return 0, 0
	}
	addr, _ := d.Value(elf.DT_STRTAB)
	n, _ = d.Value(elf.DT_STRSZ)
	at, room, ok := f.Offset(addr)
	if !ok || n > uint64(room) {
		return 0, 0
	}
	return uint64(at), n
}

func textless(name string) bool {
	switch name {
	case ".eh_frame", ".eh_frame_hdr", ".gcc_except_table", ".nv_fatbin", "__nv_relfatbin", ".got", ".got.plt", ".data.rel.ro", ".interp", ".hip_fatbin":
		return true
	}
	return false
}

// paths counts strings that look like paths of a build machine.
type paths struct {
	count    int
	examples []string
	section  string
	offset   uint64
	seen     map[string]bool
}

const (
	scanChunk   = 256 << 10
	scanOverlap = 512
)

func (p *paths) scan(ctx context.Context, r io.ReaderAt, sp span) error {
	buf := make([]byte, min(scanChunk, sp.end-sp.off))
	for off := sp.off; off < sp.end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(int64(len(buf)), sp.end-off)
		b := buf[:n]
		if m, err := r.ReadAt(b, off); int64(m) < n {
			return fmt.Errorf("read at 0x%x: %w", off, err)
		}
		last := off+n == sp.end
		limit := len(b)
		if !last {
			limit -= scanOverlap // strings that begin after this come with the next chunk
		}
		p.search(b, limit, sp, off)
		if last {
			return nil
		}
		off += int64(limit)
	}
	return nil
}

func (p *paths) search(b []byte, limit int, sp span, base int64) {
	for i := 0; i < limit; {
		j := bytes.IndexByte(b[i:limit], '/')
		if j < 0 {
			return
		}
		i += j
		if n := pathAt(b, i); n > 0 {
			if p.count == 0 {
				p.section, p.offset = sp.section, uint64(base+int64(i)-sp.off)
			}
			p.count++
			p.keep(string(b[i : i+n]))
			i += n
			continue
		}
		i++
	}
}

func (p *paths) keep(s string) {
	if p.seen == nil {
		p.seen = map[string]bool{}
	}
	if len(p.examples) < 16 && !p.seen[s] {
		p.seen[s] = true
		p.examples = append(p.examples, s)
	}
}

// pathAt returns the length of a build path at b[i], 0 for none: it must
// begin a word, name a folder under the root, and end before something that
// is not part of a path.
func pathAt(b []byte, i int) int {
	if i > 0 && (pathByte(b[i-1]) || b[i-1] == '/') || i+4 > len(b) {
		return 0
	}
	root := 0
	for _, r := range buildRoots {
		if bytes.HasPrefix(b[i:], r) {
			root = len(r)
			break
		}
	}
	if root == 0 {
		return 0
	}
	n := root
	for i+n < len(b) && n < scanOverlap && (pathByte(b[i+n]) || b[i+n] == '/') {
		n++
	}
	// "/tmp/" alone, or "/tmp/x", is a program's own choice of a folder; a
	// path of the build names a file below a folder.
	if rest := strings.Trim(string(b[i+root:i+n]), "/"); !strings.Contains(rest, "/") {
		return 0
	}
	return n
}

func pathByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("._-+@%~=", c) >= 0
}
