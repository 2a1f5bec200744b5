package remote

import (
	"testing"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/proto"

	"github.com/thox-ai/thoxbuild/compile/action"
	"github.com/thox-ai/thoxbuild/compile/action/actiontest"
)

// TestJob looks at the messages of an action: tools at relative paths, the
// platform of the cluster and no fingerprint, and an environment with a place
// for what tools write by the way.
func TestJob(t *testing.T) {
	tool := t.TempDir()
	e := newExecutor(t, Config{URL: "grpc://127.0.0.1:1", Platform: map[string]string{"Pool": "big", "OSFamily": "linux"},
		Tools: func(string) (string, []string, error) { return tool, nil, nil }})
	e.Env = map[string]string{"CACHE": Scratch + "/c", "HOME": "/elsewhere"}
	m := &actiontest.Memory{}
	s := &action.Spec{Label: "x", Args: []string{"/opt/thox/zig-1/zig", "c++", "-I/opt/thox/cxx-2/c++", "-ffile-prefix-map=/opt/thox/=thox/", "a.cpp"},
		Env:    map[string]string{"LIB": "/opt/thox/zig-1/lib:/opt/thox/cxx-2/lib", "CACHE": "own"},
		Inputs: []action.File{{Path: "a.cpp", Digest: m.Add("int x;")}}, Outputs: []string{"obj/a.o"}, Platform: map[string]string{"OSFamily": "linux", "cxx": "0123"}}
	req := m.Request(t, s)
	names, err := e.toolNames(s)
	if err != nil {
		t.Fatal(err)
	}
	j, err := e.prepare(t.Context(), req, names)
	if err != nil {
		t.Fatal(err)
	}
	blobs := map[action.Digest][]byte{}
	for _, b := range j.blobs {
		data, err := b.read()
		if err != nil {
			t.Fatal(err)
		}
		blobs[b.digest] = data
	}
	load := func(d *repb.Digest, to proto.Message) {
		t.Helper()
		dg, err := action.FromProto(d)
		if err != nil {
			t.Fatal(err)
		}
		b, ok := blobs[dg]
		if !ok {
			t.Fatalf("no message %s", dg)
		}
		if err := proto.Unmarshal(b, to); err != nil {
			t.Fatal(err)
		}
	}
	var a repb.Action
	var c repb.Command
	var root, tools repb.Directory
	load(j.digest.Proto(), &a)
	load(a.CommandDigest, &c)
	load(a.InputRootDigest, &root)
	platform := &repb.Platform{Properties: []*repb.Platform_Property{{Name: "OSFamily", Value: "linux"}, {Name: "Pool", Value: "big"}}}
	wantCommand := &repb.Command{
		Arguments: []string{"../tools/zig-1/zig", "c++", "-I../tools/cxx-2/c++", "-ffile-prefix-map=../tools/=thox/", "a.cpp"},
		EnvironmentVariables: []*repb.Command_EnvironmentVariable{{Name: "CACHE", Value: "own"}, {Name: "HOME", Value: "/elsewhere"},
			{Name: "LIB", Value: "../tools/zig-1/lib:../tools/cxx-2/lib"}, {Name: "TMPDIR", Value: "../scratch"}},
		OutputPaths: []string{"obj/a.o"}, WorkingDirectory: "kernel",
	}
	//lint:ignore SA1019 servers older than version 2.2 of the API look here
	wantCommand.Platform = platform
	if !proto.Equal(&c, wantCommand) || !proto.Equal(a.Platform, platform) {
		t.Errorf("command %v\nexpected %v\nplatform %v", &c, wantCommand, a.Platform)
	}
	if len(root.Directories) != 3 || root.Directories[0].Name != "kernel" || root.Directories[0].Digest.Hash != req.Encoded.InputRoot.Hex() {
		t.Fatalf("input root %v", &root)
	}
	load(root.Directories[2].Digest, &tools)
	if root.Directories[2].Name != "tools" || len(tools.Directories) != 2 || tools.Directories[0].Name != "cxx-2" || tools.Directories[1].Name != "zig-1" {
		t.Errorf("tools %v", &tools)
	}
	// The same again has the same digest, another platform another one.
	if again, err := e.prepare(t.Context(), req, names); err != nil || again.digest != j.digest {
		t.Errorf("%v %v", again, err)
	}
	e.client.config.Platform["Pool"] = "small"
	if other, err := e.prepare(t.Context(), req, names); err != nil || other.digest == j.digest {
		t.Errorf("%v %v", other, err)
	}
}
