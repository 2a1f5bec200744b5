package compile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/compile/action"
	"github.com/thox-ai/thoxbuild/compile/glue"
	"github.com/thox-ai/thoxbuild/compile/source"
	"github.com/thox-ai/thoxbuild/manifests"
)

// extDir holds the binding and the Python package of a torch kernel.
const extDir = "torch-ext"

// registrationPath is where the generated header lies in an action's tree.
// The reference tool writes it to the same place.
const registrationPath = extDir + "/registration.h"

const modulePath = extDir + "/thoxbuild_module.h"

var errUnknownBlob = errors.New("not an input of this plan")

func bytesReader(b []byte) io.Reader { return bytes.NewReader(b) }

// tree is what a kernel declares: the files that actions may read.
type tree struct {
	digests map[string]action.Digest
	scans   source.Set
	// closures are what units read, by source and include folders: most
	// variants compile the same units.
	closures map[string]*closure
}

// closure is what a unit reads, also as inputs of an action.
type closure struct {
	reads  source.Unit
	inputs []input
}

// readTree hashes and scans every file that some section lists, and the
// headers in the include folders that sections name. An include folder that is
// the kernel's own folder adds no files: it says where names start, and the
// headers below it are listed in src.
func (p *Plan) readTree() (*tree, error) {
	k := p.cfg.Kernel
	t := &tree{digests: map[string]action.Digest{}, scans: source.Set{}, closures: map[string]*closure{}}
	var ps manifests.Problems
	problem := func(key, format string, args ...any) {
		ps = append(ps, manifests.Problem{Pos: k.Pos(key), Severity: manifests.Error, ID: "compile/source", Key: key, Message: fmt.Sprintf(format, args...)})
	}
	add := func(key, rel string) {
		rel = path.Clean(rel)
		if !filepath.IsLocal(filepath.FromSlash(rel)) {
			problem(key, "%s: %q leaves the kernel's folder", key, rel)
			return
		}
		if _, done := t.digests[rel]; done {
			return
		}
		d, scan, err := p.cfg.Index.Scan(filepath.Join(k.Dir, filepath.FromSlash(rel)))
		if err != nil {
			problem(key, "%s: read %s: %v", key, rel, errors.Unwrap(err))
			return
		}
		t.digests[rel], t.scans[rel] = d, scan
		p.sources[filepath.Join(k.Dir, filepath.FromSlash(rel))] = true
	}
	addAll := func(table string, src, include []string) {
		for i, rel := range src {
			add(fmt.Sprintf("%s.src[%d]", table, i), rel)
		}
		for i, dir := range include {
			key := fmt.Sprintf("%s.include[%d]", table, i)
			headers, err := headersIn(k.Dir, dir)
			if err != nil {
				problem(key, "%s: %v", key, err)
			}
			for _, h := range headers {
				add(key, h)
			}
		}
	}
	if k.Torch != nil {
		addAll("torch", k.Torch.Src, k.Torch.Include)
	}
	for _, s := range k.Sections {
		addAll(manifests.KeyPath("kernel", s.Name), s.Src, s.Include)
	}
	if err := ps.Err(); err != nil {
		return nil, err
	}
	for name, text := range map[string][]byte{registrationPath: glue.Registration, modulePath: glue.Module} {
		// One that the kernel brings is overridden, as the reference tool
		// does: it would not know about the linked-in name.
		t.digests[name], t.scans[name] = action.DigestOf(text), source.Scan{}
		p.blobs[t.digests[name]] = text
	}
	t.scans[registrationPath] = source.Scan{Includes: []source.Include{{Path: "thoxbuild_module.h", Quoted: true}}}
	return t, nil
}

// headersIn lists the header-like files in an include folder. Hidden folders
// and links are left out.
func headersIn(root, dir string) ([]string, error) {
	dir = path.Clean(dir)
	if dir == "." {
		return nil, nil
	}
	if !filepath.IsLocal(filepath.FromSlash(dir)) {
		return nil, fmt.Errorf("%q leaves the kernel's folder", dir)
	}
	var out []string
	err := fs.WalkDir(os.DirFS(root), dir, func(p string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && p == dir:
			return fs.SkipAll // an include folder need not exist, as for a compiler
		case err != nil:
			return err
		case e.IsDir() && p != dir && strings.HasPrefix(e.Name(), "."):
			return fs.SkipDir
		case e.Type().IsRegular() && source.IsHeader(e.Name()):
			out = append(out, p)
		}
		return nil
	})
	slices.Sort(out)
	return out, err
}

// closure follows the includes of a source.
func (p *Plan) closure(t *tree, src string, dirs []string) *closure {
	key := strings.Join(append([]string{src}, dirs...), "\x00")
	c := t.closures[key]
	if c == nil {
		reads := t.scans.Unit(src, dirs)
		c = &closure{reads, p.inputs(t, reads)}
		t.closures[key] = c
	}
	return c
}

// inputs are the files of a unit as inputs of an action.
func (p *Plan) inputs(t *tree, u source.Unit) []input {
	in := make([]input, 0, len(u.Files))
	for _, f := range u.Files {
		if b, ok := p.blobs[t.digests[f]]; ok && (f == registrationPath || f == modulePath) {
			in = append(in, p.generated(f, b))
			continue
		}
		in = append(in, p.file(f, t.digests[f]))
	}
	return in
}

// kernelHas reports whether a file lies in the kernel's folder.
func (p *Plan) kernelHas(rel string) bool {
	if !filepath.IsLocal(filepath.FromSlash(rel)) {
		return false
	}
	fi, err := os.Stat(filepath.Join(p.cfg.Kernel.Dir, filepath.FromSlash(rel)))
	return err == nil && fi.Mode().IsRegular()
}
