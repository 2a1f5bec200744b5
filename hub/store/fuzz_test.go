package store

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func FuzzCheckPath(f *testing.F) {
	for _, p := range []string{"a", "a/b", "../x", "/x", "a//b", "a/./b", "", `a\b`, "a/.git/x", "\x00", "ä/ö"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if CheckPath(p) != nil {
			return
		}
		root := "/root/dir"
		got := filepath.Join(root, filepath.FromSlash(p))
		if got != root+"/"+p || !strings.HasPrefix(got, root+"/") || !filepath.IsLocal(p) {
			t.Errorf("CheckPath accepts %q, which joins to %q", p, got)
		}
	})
}

func FuzzCheckRef(f *testing.F) {
	for _, p := range []string{"refs/heads/main", "refs/heads/../x", "refs/tags/a/b", "refs/pr/1", "refs/pr/01", "refs/heads/a.lock", "HEAD"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if checkRef(name) == nil && (!filepath.IsLocal(name) || filepath.Clean(name) != name || strings.Count(name, "/") < 2) {
			t.Errorf("checkRef accepts %q", name)
		}
	})
}

func FuzzTree(f *testing.F) {
	f.Add(encodeTree([]TreeEntry{{Name: "a.x"}, {Name: "a", Dir: true}, {Name: "a0"}}))
	f.Add([]byte("100644 a\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := decodeTree(b)
		if err != nil || strings.Contains(string(b), "100755 ") {
			return
		}
		if got := encodeTree(slices.Clone(list)); string(got) != string(b) {
			t.Errorf("%q decodes to %v, which encodes to %q", b, list, got)
		}
	})
}

func FuzzPointer(f *testing.F) {
	f.Add(Pointer{strings.Repeat("ab", 32), 12}.Encode())
	f.Add([]byte("version https://git-lfs.github.com/spec/v1\noid sha256:"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := ParsePointer(b); ok && string(p.Encode()) != string(b) {
			t.Errorf("%q reads as %+v, which prints %q", b, p, p.Encode())
		}
	})
}

func FuzzPackIndex(f *testing.F) {
	f.Add(encodeIndex([]packItem{{id: ID{1}, off: 12}, {id: ID{2}, off: 1 << 40}}, make([]byte, 20)))
	f.Fuzz(func(t *testing.T, b []byte) {
		p := &pack{idx: b}
		if p.check() != nil {
			return
		}
		for i := range p.n {
			p.offset(i)
			p.find(p.id(i))
		}
	})
}
