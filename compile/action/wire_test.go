package action

import (
	"bytes"
	"slices"
	"testing"
	"unicode/utf8"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/proto"
)

// Every message that is written reads with the generated types, which write
// the same bytes again, and its lists are sorted.
func FuzzWire(f *testing.F) {
	f.Add("-c", "", "a/b.cpp", "a-b/c.h", int64(0), true)
	f.Add("x\xff", "v", "a", "a/b", int64(1<<40), false)
	f.Add("", "wörld", "a.b/c", "a/c", int64(127), true)
	f.Fuzz(func(t *testing.T, arg, value, one, two string, size int64, exec bool) {
		if size < 0 {
			return // no digest has a negative size
		}
		s := &Spec{
			Args:     []string{"cc", arg, ""},
			Env:      map[string]string{"B": value, "A": "", value: arg},
			Inputs:   []File{{two, Digest{Empty.Hash, size}, exec}, {one, DigestOf([]byte(value)), false}, {one, DigestOf([]byte(value)), false}},
			Outputs:  []string{"zz", "out/o"},
			Platform: map[string]string{"p": arg, "": value},
		}
		e, err := s.Encode()
		key, kerr := s.Key()
		if (err == nil) != (kerr == nil) || err == nil && key != e.Key {
			t.Fatalf("Encode gives %v %v, Key %v %v", e, err, key, kerr)
		}
		if err != nil {
			return
		}
		if !utf8.ValidString(arg) || !utf8.ValidString(value) || !utf8.ValidString(one) || !utf8.ValidString(two) {
			t.Fatal("text that is not UTF-8 has a key")
		}
		same := func(d Digest, m proto.Message) {
			t.Helper()
			b := e.Blobs[d]
			if err := proto.Unmarshal(b, m); err != nil {
				t.Fatal(err)
			}
			again, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
			if err != nil || !bytes.Equal(again, b) || DigestOf(b) != d {
				t.Fatalf("%T: %v\nwritten  %x\nexpected %x", m, err, b, again)
			}
		}
		var a repb.Action
		var c repb.Command
		same(e.Key, &a)
		same(e.Command, &c)
		if !slices.Equal(c.Arguments, s.Args) || len(c.EnvironmentVariables) != len(s.Env) || len(a.Platform.Properties) != len(s.Platform) {
			t.Fatalf("%v\n%v", &c, &a)
		}
		files := 0
		var walk func(d Digest)
		walk = func(d Digest) {
			var dir repb.Directory
			same(d, &dir)
			if !slices.IsSortedFunc(dir.Files, func(a, b *repb.FileNode) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) }) ||
				!slices.IsSortedFunc(dir.Directories, func(a, b *repb.DirectoryNode) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) }) {
				t.Fatalf("not sorted: %v", &dir)
			}
			files += len(dir.Files)
			for _, sub := range dir.Directories {
				d, err := FromProto(sub.Digest)
				if err != nil {
					t.Fatal(err)
				}
				walk(d)
			}
		}
		walk(e.InputRoot)
		if want := map[bool]int{true: 1, false: 2}[one == two]; files != want {
			t.Fatalf("%d files in the tree, want %d", files, want)
		}
	})
}
