package manifests

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// maxMetadataBytes bounds a metadata.json; a digest of ten thousand files is
// about a megabyte.
const maxMetadataBytes = 32 << 20

var (
	kernelsMinVerRE = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`)
	pythonIdentRE   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	commitRE        = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
)

// ParseMetadata reads a metadata.json. It is strict where a loader is: the
// required keys, and everything inside digest and provenance, whose faults
// make a variant unloadable. Unknown keys are kept.
func ParseMetadata(data []byte) (*Metadata, error) {
	f := openJSON("", data)
	m := &Metadata{
		Name:          f.text("name", true),
		ID:            f.text("id", true),
		KernelsMinVer: f.text("kernels-minver", false),
		License:       f.text("license", true),
		Upstream:      f.text("upstream", false),
		Source:        f.text("source", false),
		PythonDepends: f.texts("python-depends", true),
	}
	if v := f.uint("version", true); v != nil {
		m.Version = *v
	}
	if raw := f.take("kernel-depends", false); raw != nil {
		m.KernelDepends = readDependencies(f, raw)
	}
	if raw := f.take("backend", true); raw != nil {
		b := openJSON("backend", raw)
		m.Backend = MetadataBackend{Type: Backend(b.text("type", true)), Archs: b.texts("archs", false)}
		m.Backend.unknown = b.rest
		f.adopt(b)
	}
	if raw := f.take("digest", false); raw != nil {
		m.Digest = readDigest(f, raw)
	}
	if raw := f.take("provenance", false); raw != nil {
		m.Provenance = readProvenance(f, raw)
	}
	m.unknown = f.rest
	if f.err == nil {
		f.err = m.Validate()
	}
	if f.err != nil {
		return nil, f.err
	}
	return m, nil
}

// adopt takes over the first error of a nested object.
func (f *jsonFields) adopt(inner *jsonFields) {
	if f.err == nil {
		f.err = inner.err
	}
}

func readDependencies(f *jsonFields, raw json.RawMessage) []KernelDependency {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		f.fail("kernel-depends", "expected an array, got %s", raw)
		return nil
	}
	out := []KernelDependency{}
	for i, item := range items {
		d := openJSON(fmt.Sprintf("kernel-depends[%d]", i), item)
		dep := readDependency(d)
		d.noMore()
		f.adopt(d)
		out = append(out, dep)
	}
	return out
}

func readDependency(d *jsonFields) KernelDependency {
	dep := KernelDependency{RepoID: d.text("repo-id", true), Version: d.uint("version", false), Revision: d.text("revision", false)}
	if d.err == nil {
		if err := dep.validate(); err != nil {
			d.err = fmt.Errorf("%s: %w", d.where, err)
		}
	}
	return dep
}

func (d KernelDependency) validate() error {
	switch {
	case !repoIDRE.MatchString(d.RepoID):
		return fmt.Errorf("repo-id %q: expected <owner>/<name>", d.RepoID)
	case d.Version != nil && d.Revision != "":
		return fmt.Errorf("version and revision are mutually exclusive")
	case d.Version == nil && d.Revision == "":
		return fmt.Errorf("one of version and revision must be specified")
	}
	return nil
}

// noMore reports a key that nobody asked for.
func (f *jsonFields) noMore() {
	if len(f.rest) > 0 {
		f.fail(f.rest[0].Key, "unknown key")
	}
}

func readDigest(f *jsonFields, raw json.RawMessage) *Digest {
	in := openJSON("digest", raw)
	d := &Digest{Algorithm: Algorithm(in.text("algorithm", true)), Files: map[string]string{}}
	if files := in.take("files", true); files != nil {
		list := openJSON("digest.files", files)
		for len(list.rest) > 0 {
			key := list.rest[0].Key
			d.Files[key] = list.text(key, true)
		}
		in.adopt(list)
	}
	in.noMore()
	f.adopt(in)
	return d
}

func readProvenance(f *jsonFields, raw json.RawMessage) *Provenance {
	in := openJSON("provenance", raw)
	p := &Provenance{}
	if kb := in.take("kernel-builder", true); kb != nil {
		b := openJSON("provenance.kernel-builder", kb)
		p.KernelBuilder.Version = b.text("version", true)
		p.KernelBuilder.Commit = readCommit(b, false)
		p.KernelBuilder.unknown = b.rest
		in.adopt(b)
	}
	if k := in.take("kernel", false); k != nil {
		b := openJSON("provenance.kernel", k)
		if p.Kernel = readCommit(b, true); p.Kernel != nil {
			p.Kernel.unknown = b.rest
		}
		in.adopt(b)
	}
	p.unknown = in.rest
	f.adopt(in)
	return p
}

// readCommit reads the pair commit (once called sha) and dirty.
func readCommit(f *jsonFields, required bool) *Commit {
	sha := f.text("commit", false)
	if old := f.text("sha", false); sha == "" {
		sha = old
	}
	dirty := f.take("dirty", false)
	if sha == "" && dirty == nil {
		if required {
			f.fail("commit", "missing key")
		}
		return nil
	}
	if sha == "" || dirty == nil {
		f.fail("commit", "commit and dirty must come together")
		return nil
	}
	c := &Commit{SHA: sha}
	if json.Unmarshal(dirty, &c.Dirty) != nil {
		f.fail("dirty", "expected true or false, got %s", dirty)
	}
	return c
}

// Validate reports what would make a loader refuse the metadata.
func (m *Metadata) Validate() error {
	switch {
	case !kernelNameRE.MatchString(m.Name):
		return fmt.Errorf("name: %q: expected at least two characters of a-z, 0-9 and -, a letter first and no dash last", m.Name)
	case !pythonIdentRE.MatchString(m.ID):
		return fmt.Errorf("id: %q: expected a Python identifier such as _my_kernel_cpu_1a2b3c4", m.ID)
	case m.Version < 0:
		return fmt.Errorf("version: expected a non-negative integer, got %d", m.Version)
	case m.KernelsMinVer != "" && !kernelsMinVerRE.MatchString(m.KernelsMinVer):
		return fmt.Errorf("kernels-minver: %q: expected three numbers, as in \"0.14.0\"", m.KernelsMinVer)
	case !slices.Contains(Backends, m.Backend.Type):
		return fmt.Errorf("backend.type: unknown backend %q; expected %s", m.Backend.Type, oneOf(toStrings(Backends)))
	}
	for _, u := range []struct{ key, url string }{{"upstream", m.Upstream}, {"source", m.Source}} {
		if u.url != "" {
			if err := checkGitURL(u.url); err != nil {
				return fmt.Errorf("%s: %q: %w", u.key, u.url, err)
			}
		}
	}
	for i, d := range m.KernelDepends {
		if err := d.validate(); err != nil {
			return fmt.Errorf("kernel-depends[%d]: %w", i, err)
		}
	}
	if m.Digest != nil {
		if err := m.Digest.validate(); err != nil {
			return err
		}
	}
	if m.Provenance != nil {
		for _, c := range []*Commit{m.Provenance.KernelBuilder.Commit, m.Provenance.Kernel} {
			if c != nil && !commitRE.MatchString(c.SHA) {
				return fmt.Errorf("provenance: commit %q: expected 40 or 64 lower-case hex digits", c.SHA)
			}
		}
	}
	return nil
}

// Print writes the metadata in the order and layout of the reference
// producer. Equal values give equal bytes; ParseMetadata gives the value back.
// The unknown keys of a parsed file follow the known ones.
func (m *Metadata) Print() ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", MetadataFile, err)
	}
	var w jsonWriter
	w.add("name", m.Name)
	w.add("id", m.ID)
	w.add("version", m.Version)
	w.optional("kernels-minver", m.KernelsMinVer)
	w.add("license", m.License)
	w.optional("upstream", m.Upstream)
	w.optional("source", m.Source)
	w.add("python-depends", notNil(m.PythonDepends))
	if m.KernelDepends != nil {
		items := []json.RawMessage{}
		for _, d := range m.KernelDepends {
			items = append(items, printDependency(d))
		}
		w.add("kernel-depends", items)
	}
	var b jsonWriter
	b.add("type", string(m.Backend.Type))
	if m.Backend.Archs != nil {
		b.add("archs", m.Backend.Archs)
	}
	b.members = append(b.members, m.Backend.unknown...)
	w.add("backend", b.object())
	if d := m.Digest; d != nil {
		var dw jsonWriter
		dw.add("algorithm", string(d.Algorithm))
		files := d.Files
		if files == nil {
			files = map[string]string{}
		}
		dw.add("files", files) // encoding/json sorts the keys by their bytes
		w.add("digest", dw.object())
	}
	if p := m.Provenance; p != nil {
		w.add("provenance", p.print())
	}
	w.members = append(w.members, m.unknown...)
	return indentJSON(w.object()), nil
}

func (w *jsonWriter) optional(key, s string) {
	if s != "" {
		w.add(key, s)
	}
}

func printDependency(d KernelDependency) json.RawMessage {
	var w jsonWriter
	w.add("repo-id", d.RepoID)
	if d.Version != nil {
		w.add("version", *d.Version)
	} else {
		w.add("revision", d.Revision)
	}
	return w.object()
}

func (p *Provenance) print() json.RawMessage {
	var w, b jsonWriter
	b.add("version", p.KernelBuilder.Version)
	b.commit(p.KernelBuilder.Commit)
	b.members = append(b.members, p.KernelBuilder.unknown...)
	w.add("kernel-builder", b.object())
	if p.Kernel != nil {
		var k jsonWriter
		k.commit(p.Kernel)
		k.members = append(k.members, p.Kernel.unknown...)
		w.add("kernel", k.object())
	}
	w.members = append(w.members, p.unknown...)
	return w.object()
}

func (w *jsonWriter) commit(c *Commit) {
	if c != nil {
		w.add("commit", c.SHA)
		w.add("dirty", c.Dirty)
	}
}

// ExtensionName is a variant's id: the extension module, the operators'
// namespace and the loader's module name at once. uniqueID makes it unlike
// that of any other build which may be loaded into the same process.
func ExtensionName(kernel string, b Backend, uniqueID string) (string, error) {
	id := strings.Join([]string{"", pythonName(kernel), string(b), uniqueID}, "_")
	if uniqueID == "" || !pythonIdentRE.MatchString(id) {
		return "", fmt.Errorf("extension name %q: expected letters, digits and _ after the backend", id)
	}
	return id, nil
}
