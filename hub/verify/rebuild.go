package verify

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/source"
	"github.com/thox-ai/thoxbuild/manifests"
)

// The kinds of problems that a rebuild finds.
const (
	// NotRebuilt is a variant that was not built again, so nothing is known.
	NotRebuilt Kind = "not-rebuilt"
	// RebuiltDiffers is a file whose bytes the sources do not give.
	RebuiltDiffers Kind = "rebuilt-differs"
	// RebuiltMissing is a published file that the sources do not give at all.
	RebuiltMissing Kind = "rebuilt-missing"
	// RebuiltExtra is a file that the sources give and nobody published.
	RebuiltExtra Kind = "rebuilt-extra"
)

// Add appends a problem that somebody else found.
func (r *Report) Add(p Problem) { r.Problems = append(r.Problems, p) }

// CompareRebuilt holds one published variant against the same variant built
// again from its sources, file by file. Signatures are made after a build and
// are left out. What metadata.json says of the builder and the commit is a
// claim and nothing that loads: where only that differs, it becomes a note.
func (r *Report) CompareRebuilt(ctx context.Context, name string, published, rebuilt source.Source) error {
	was, err := variantFiles(ctx, published, name)
	if err != nil {
		return err
	}
	now, err := variantFiles(ctx, rebuilt, name)
	if err != nil {
		return err
	}
	before := len(r.Problems)
	for _, file := range slices.Sorted(maps.Keys(was)) {
		e, ok := now[file]
		if !ok {
			r.add(RebuiltMissing, name, file, "published, and the sources do not make it")
			continue
		}
		if err := r.compareFile(ctx, name, file, published, was[file], rebuilt, e); err != nil {
			return err
		}
	}
	for _, file := range slices.Sorted(maps.Keys(now)) {
		if _, ok := was[file]; !ok {
			r.add(RebuiltExtra, name, file, "the sources make it, and it is not published")
		}
	}
	if len(r.Problems) > before {
		return r.why(ctx, name, published, was, rebuilt, now)
	}
	return nil
}

func variantFiles(ctx context.Context, s source.Source, name string) (map[string]client.Entry, error) {
	files, err := s.Files(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]client.Entry{}
	for _, e := range source.Variants(files)[name] {
		if file := source.Within(e); file == manifests.MetadataFile || !manifests.SkipDigest(file) {
			out[file] = e
		}
	}
	return out, nil
}

func (r *Report) compareFile(ctx context.Context, name, file string, published source.Source, was client.Entry, rebuilt source.Source, now client.Entry) error {
	a, sumA, err := read(ctx, published, was)
	if err != nil {
		return err
	}
	b, sumB, err := read(ctx, rebuilt, now)
	if err != nil || sumA == sumB {
		return err
	}
	text := fmt.Sprintf("published sha256:%s (%d bytes), rebuilt sha256:%s (%d bytes)", sumA, was.Size, sumB, now.Size)
	if file == manifests.MetadataFile {
		diff, claims := metadataDifferences(a, b)
		for _, c := range claims {
			r.Notes = append(r.Notes, fmt.Sprintf("%s/%s: %s", name, file, c))
		}
		if len(diff) == 0 && len(claims) > 0 {
			return nil
		}
		if len(diff) > 0 {
			text += "; " + strings.Join(diff, "; ")
		}
	} else {
		text += "; " + firstDifference(a, b)
	}
	r.add(RebuiltDiffers, name, file, "%s", text)
	return nil
}

// maxCompared bounds what of a file is kept to say where it differs.
const maxCompared = 64 << 20

// read hashes a file and keeps its beginning.
func read(ctx context.Context, s source.Source, e client.Entry) ([]byte, string, error) {
	keep := &prefix{}
	sums, err := source.Copy(ctx, s, e, keep)
	if err != nil && !errors.Is(err, source.ErrCorrupt) { // corrupt bytes are compared as they are
		return nil, "", err
	}
	return keep.b, sums.SHA256, nil
}

type prefix struct{ b []byte }

// Write implements io.Writer.
func (p *prefix) Write(b []byte) (int, error) {
	p.b = append(p.b, b[:min(len(b), maxCompared-len(p.b))]...)
	return len(b), nil
}

// why adds what explains most differences at once: other sources or tools
// change the extension's name, and the builder's line names the tools.
func (r *Report) why(ctx context.Context, name string, published source.Source, was map[string]client.Entry, rebuilt source.Source, now map[string]client.Entry) error {
	read := func(s source.Source, files map[string]client.Entry) (*manifests.Metadata, error) {
		e, ok := files[manifests.MetadataFile]
		if !ok {
			return nil, nil
		}
		m, _, err := source.Metadata(ctx, s, []client.Entry{e})
		if errors.Is(err, source.ErrCorrupt) || m == nil {
			return nil, nil
		}
		return m, err
	}
	a, err := read(published, was)
	if err != nil {
		return err
	}
	b, err := read(rebuilt, now)
	if err != nil || a == nil || b == nil {
		return err
	}
	switch {
	case a.ID == b.ID:
		r.Notes = append(r.Notes, name+": sources and tools are what they were, for the name "+a.ID+" is a digest of them: the published bytes were changed, or a tool does not give the same each time")
	case builder(a) == builder(b):
		r.Notes = append(r.Notes, fmt.Sprintf("%s: the name %s is a digest of the sources and tools, and is now %s: the tools are the same, so a source differs", name, a.ID, b.ID))
	default:
		r.Notes = append(r.Notes, fmt.Sprintf("%s: the name %s is a digest of the sources and tools, and is now %s: published by %q, rebuilt by %q", name, a.ID, b.ID, builder(a), builder(b)))
	}
	return nil
}

func builder(m *manifests.Metadata) string {
	if m.Provenance == nil {
		return ""
	}
	return m.Provenance.KernelBuilder.Version
}

// firstDifference says where two files differ first, in a library by the
// section.
func firstDifference(a, b []byte) string {
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	if f, err := elf.NewFile(bytes.NewReader(a)); err == nil {
		for _, s := range f.Sections {
			if s.Type != elf.SHT_NOBITS && uint64(at) >= s.Offset && uint64(at)-s.Offset < s.FileSize {
				return fmt.Sprintf("the first difference is at %#x in %s", at, s.Name)
			}
		}
	}
	return fmt.Sprintf("the first difference is at byte %d, line %d", at, 1+bytes.Count(a[:at], []byte("\n")))
}

// metadataDifferences lists the values that differ, and separately those that
// are claims about the build.
func metadataDifferences(a, b []byte) (diff, claims []string) {
	x, y := map[string]any{}, map[string]any{}
	var va, vb any
	if json.Unmarshal(a, &va) != nil || json.Unmarshal(b, &vb) != nil {
		return []string{firstDifference(a, b)}, nil
	}
	flatten(x, "", va)
	flatten(y, "", vb)
	keys := map[string]bool{}
	for k := range x {
		keys[k] = true
	}
	for k := range y {
		keys[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if reflect.DeepEqual(x[k], y[k]) {
			continue
		}
		line := fmt.Sprintf("%s: published %s, rebuilt %s", k, value(x, k), value(y, k))
		if k == "provenance" || strings.HasPrefix(k, "provenance.") {
			claims = append(claims, line)
		} else {
			diff = append(diff, line)
		}
	}
	return diff, claims
}

func flatten(to map[string]any, at string, v any) {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		to[at] = v
		return
	}
	for k, e := range m {
		key := k
		if at != "" {
			key = at + "." + k
		}
		flatten(to, key, e)
	}
}

func value(m map[string]any, k string) string {
	v, ok := m[k]
	if !ok {
		return "nothing"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
