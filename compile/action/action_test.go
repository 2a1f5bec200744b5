package action

import (
	"slices"
	"strings"
	"testing"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/proto"
)

func sample() *Spec {
	return &Spec{
		Label:    "compile a.cpp",
		Args:     []string{"/opt/thox/cc", "-c", "src/a.cpp", "-o", "out/a.o"},
		Env:      map[string]string{"LC_ALL": "C", "A": ""},
		Inputs:   []File{{Path: "src/a.cpp", Digest: DigestOf([]byte("int a;\n"))}, {Path: "src/inc/a.h", Digest: Empty}, {Path: "tool", Digest: DigestOf([]byte("#!")), Exec: true}},
		Outputs:  []string{"out/a.o"},
		Platform: map[string]string{"OSFamily": "linux", "cxx": "zig 0.17.1"},
	}
}

// The key of a fixed action is a fixed number: whoever changes the encoding
// throws every cache away, and has to mean it.
func TestKeyVector(t *testing.T) {
	e, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	// A second encoder, written from the .proto file in another language, gave
	// the same bytes.
	const wantKey = "06332fd3230dff87ce093272771bb8f30eeaa728a4726ff601dc0a46c8576d19/194"
	if e.Key.String() != wantKey {
		t.Errorf("key %s, want %s", e.Key, wantKey)
	}
	if Empty.String() != "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855/0" {
		t.Errorf("empty digest %s", Empty)
	}
}

// The messages are what the protocol says: they parse, refer to each other,
// and their lists are sorted.
func TestEncodeIsTheProtocol(t *testing.T) {
	s := sample()
	e, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	get := func(d *repb.Digest, m proto.Message) {
		t.Helper()
		dg, err := FromProto(d)
		if err != nil {
			t.Fatal(err)
		}
		if err := proto.Unmarshal(e.Blobs[dg], m); err != nil || e.Blobs[dg] == nil {
			t.Fatalf("blob %s: %v", dg, err)
		}
	}
	var a repb.Action
	var c repb.Command
	var root, src repb.Directory
	get(e.Key.Proto(), &a)
	get(a.CommandDigest, &c)
	get(a.InputRootDigest, &root)
	if !slices.Equal(c.Arguments, s.Args) || !slices.Equal(c.OutputPaths, s.Outputs) {
		t.Errorf("command %v", &c)
	}
	if c.EnvironmentVariables[0].Name != "A" || c.EnvironmentVariables[1].Name != "LC_ALL" {
		t.Errorf("environment is not sorted: %v", c.EnvironmentVariables)
	}
	//lint:ignore SA1019 the deprecated field is written for older servers, so it is tested
	if !proto.Equal(a.Platform, c.Platform) || a.Platform.Properties[0].Name != "OSFamily" {
		t.Errorf("platform %v", a.Platform)
	}
	if len(root.Directories) != 1 || root.Directories[0].Name != "src" || !root.Files[0].IsExecutable {
		t.Errorf("root %v", &root)
	}
	get(root.Directories[0].Digest, &src)
	if src.Files[0].Name != "a.cpp" || src.Directories[0].Name != "inc" {
		t.Errorf("src %v", &src)
	}
}

func TestKeyDependsOnContentAlone(t *testing.T) {
	key := func(change func(*Spec)) Digest {
		s := sample()
		change(s)
		e, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return e.Key
	}
	base := key(func(*Spec) {})
	if got := key(func(s *Spec) { slices.Reverse(s.Inputs); s.Label = "another" }); got != base {
		t.Error("the order of inputs or the label is part of the key")
	}
	seen := map[Digest]string{base: "nothing"}
	for what, change := range map[string]func(*Spec){
		"argument":    func(s *Spec) { s.Args[1] = "-C" },
		"arguments":   func(s *Spec) { s.Args = append(s.Args, "") },
		"environment": func(s *Spec) { s.Env["LC_ALL"] = "D" },
		"no variable": func(s *Spec) { delete(s.Env, "A") },
		"input":       func(s *Spec) { s.Inputs[0].Digest = DigestOf([]byte("int b;\n")) },
		"name":        func(s *Spec) { s.Inputs[0].Path = "src/b.cpp" },
		"executable":  func(s *Spec) { s.Inputs[2].Exec = false },
		"output":      func(s *Spec) { s.Outputs = append(s.Outputs, "out/b.o") },
		"tool":        func(s *Spec) { s.Platform["cxx"] = "zig 0.17.2" },
	} {
		k := key(change)
		if other, dup := seen[k]; dup {
			t.Errorf("a change of the %s gives the key of a change of the %s", what, other)
		}
		seen[k] = what
	}
}

func TestEncodeRefuses(t *testing.T) {
	for want, change := range map[string]func(*Spec){
		"no command":             func(s *Spec) { s.Args = nil },
		"no outputs":             func(s *Spec) { s.Outputs = nil },
		"listed twice":           func(s *Spec) { s.Outputs = []string{"a", "a"} },
		"inside the tree":        func(s *Spec) { s.Inputs[0].Path = "../a.cpp" },
		`"/a.cpp"`:               func(s *Spec) { s.Inputs[0].Path = "/a.cpp" },
		`"a//b"`:                 func(s *Spec) { s.Outputs = []string{"a//b"} },
		`"."`:                    func(s *Spec) { s.Outputs = []string{"."} },
		"empty path":             func(s *Spec) { s.Inputs[0].Path = "" },
		"backslashes":            func(s *Spec) { s.Inputs[0].Path = `a\b` },
		"two different files":    func(s *Spec) { s.Inputs = append(s.Inputs, File{Path: "src/a.cpp", Digest: Empty}) },
		"is a file and a folder": func(s *Spec) { s.Inputs = append(s.Inputs, File{Path: "src", Digest: Empty}) },
		"a file and a folder":    func(s *Spec) { s.Inputs = append(s.Inputs, File{Path: "tool/x", Digest: Empty}) },
		"lies in its way":        func(s *Spec) { s.Outputs = []string{"tool/out.o"} },
		"the input \"a.cpp\"":    func(s *Spec) { s.Outputs = []string{"src/a.cpp"} },
		"is a folder of inputs":  func(s *Spec) { s.Outputs = []string{"src/inc"} },
	} {
		s := sample()
		change(s)
		if _, err := s.Encode(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestExplainDiff(t *testing.T) {
	s := sample()
	if d := Diff(s.Explain(), s.Explain()); len(d) != 0 {
		t.Errorf("no change shows as %v", d)
	}
	n := sample()
	n.Args = slices.Insert(n.Args, 1, "-O3")
	n.Inputs[0].Digest = Empty
	n.Inputs = n.Inputs[:2]
	n.Env["NEW"] = "1"
	var got []string
	for _, c := range Diff(s.Explain(), n.Explain()) {
		got = append(got, c.String())
	}
	want := []string{
		`+ arg: "-O3"`,
		`+ env NEW: "1"`,
		`~ input src/a.cpp: "` + s.Inputs[0].Digest.String() + `" -> "` + Empty.String() + `"`,
		`- input tool: "` + s.Inputs[2].Digest.String() + ` executable"`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func FuzzParseDigest(f *testing.F) {
	f.Add(Empty.String())
	f.Add(DigestOf([]byte("x")).String())
	f.Add("E3b0/0")
	f.Add(Empty.Hex() + "/00")
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDigest(s)
		if err == nil && d.String() != s {
			t.Errorf("%q parses and prints as %q", s, d)
		}
	})
}

// Whatever path goes into a tree, either it is refused or it comes out below
// the root, under the same name.
func FuzzTree(f *testing.F) {
	f.Add("a/b.cpp", "a/c.h")
	f.Add("../x", "a")
	f.Add("a", "a/b")
	f.Fuzz(func(t *testing.T, one, two string) {
		s := sample()
		s.Inputs = []File{{Path: one, Digest: Empty}, {Path: two, Digest: Empty}}
		e, err := s.Encode()
		if err != nil {
			return
		}
		for _, p := range []string{one, two} {
			dir := &repb.Directory{}
			if err := proto.Unmarshal(e.Blobs[e.InputRoot], dir); err != nil {
				t.Fatal(err)
			}
			parts := strings.Split(p, "/")
			for _, name := range parts[:len(parts)-1] {
				i := slices.IndexFunc(dir.Directories, func(d *repb.DirectoryNode) bool { return d.Name == name })
				if i < 0 || name == ".." || name == "." || name == "" {
					t.Fatalf("%q is not where its name says", p)
				}
				d, err := FromProto(dir.Directories[i].Digest)
				if err != nil {
					t.Fatal(err)
				}
				dir = &repb.Directory{}
				if err := proto.Unmarshal(e.Blobs[d], dir); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.ContainsFunc(dir.Files, func(f *repb.FileNode) bool { return f.Name == parts[len(parts)-1] }) {
				t.Fatalf("%q is not in its folder", p)
			}
		}
	})
}
