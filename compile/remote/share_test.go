package remote

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/grpc/codes"

	"github.com/thox-ai/thoxbuild/compile/action"
	"github.com/thox-ai/thoxbuild/compile/action/actiontest"
	"github.com/thox-ai/thoxbuild/compile/local"
	"github.com/thox-ai/thoxbuild/compile/remote/remotetest"
)

// TestShareConformance holds the executor that runs actions here, with a real
// server's cache, to what the local one does.
func TestShareConformance(t *testing.T) {
	actiontest.Run(t, newExecutor(t, Config{URL: remotetest.Start(t, false).URL, CacheOnly: true}))
}

// TestShare runs an action here once; whoever asks later gets the result,
// whether the cluster would run the action or not.
func TestShare(t *testing.T) {
	s, url := newServer(t, nil)
	s.caps.CacheCapabilities.ActionCacheUpdateCapabilities = &repb.ActionCacheUpdateCapabilities{UpdateEnabled: true}
	var said []string
	in := &actiontest.Memory{}
	run := func(what, input string, cacheOnly bool, where string, cached bool) {
		t.Helper()
		// Each on a machine of its own.
		tool := filepath.Join(t.TempDir(), "tools", "warn-1")
		script := "#!/bin/sh\necho \"$0: careful\"\ncat in in > o\n"
		if err := os.MkdirAll(tool, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(tool, "warn"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		here := &local.Executor{Scratch: t.TempDir(), Resolve: func(s string) string { return strings.ReplaceAll(s, "/opt/thox/warn-1", tool) }}
		e, err := New(Config{URL: url, CacheOnly: cacheOnly, ToolRoot: "/opt/thox/", Log: func(f string, a ...any) { said = append(said, fmt.Sprintf(f, a...)) },
			Tools: func(string) (string, []string, error) { return tool, nil, nil }}, here)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		out := &actiontest.Memory{}
		req := in.Request(t, &action.Spec{Label: "warn", Args: []string{"/opt/thox/warn-1/warn"}, Env: map[string]string{"PATH": "/usr/bin:/bin"},
			Inputs: []action.File{{Path: "in", Digest: in.Add(input)}}, Outputs: []string{"o"}})
		req.Open = func(d action.Digest) (io.ReadCloser, error) {
			if r, err := out.Open(d); err == nil {
				return r, nil
			}
			return in.Open(d)
		}
		res, err := e.Run(t.Context(), req, out)
		if err != nil || res.Where != where || res.Cached != cached || string(res.Log) != tool+"/warn: careful\n" {
			t.Fatalf("%s: %+v %q, %v", what, res, res.Log, err)
		}
		if got, _ := out.Get(res.Outputs[0].Digest); got != input+input {
			t.Errorf("%s: output %q", what, got)
		}
	}
	run("the first", "x", true, "", false)
	run("the second", "x", true, Where, true)
	run("one that would have the cluster run it", "x", false, Where, true)
	run("one that has the cluster run it", "y", false, Where, false)
	run("the next", "y", true, Where, true)
	if n := s.count("Execute"); n != 1 {
		t.Errorf("%d executions", n)
	}
	for _, r := range s.results {
		if log := string(r.StdoutRaw); strings.Contains(log, "TestShare") && !strings.Contains(log, "/run") { // the server's own folders
			t.Errorf("a result tells of a place of this machine: %q", log)
		}
	}

	s.caps.CacheCapabilities.ActionCacheUpdateCapabilities, s.caps.ExecutionCapabilities = nil, nil
	run("a cache that only some may write", "z", true, "", false)
	run("and it was not written", "z", true, "", false)
	if len(said) > 0 {
		t.Errorf("said %q", said)
	}

	s.caps.CacheCapabilities.ActionCacheUpdateCapabilities = &repb.ActionCacheUpdateCapabilities{UpdateEnabled: true}
	s.fail = on("UpdateActionResult", codes.PermissionDenied, always)
	run("a cache that refuses", "z", true, "", false)
	if len(said) != 1 || !strings.Contains(said[0], "going on without the cluster's cache: "+url+": write a result: made to fail (PermissionDenied)") {
		t.Errorf("said %q", said)
	}
	s.fail = on("GetActionResult", codes.Unavailable, always)
	run("a cache that is gone", "x", true, "", false)
	if len(said) != 2 || !strings.Contains(said[1], "ask for a result") {
		t.Errorf("said %q", said)
	}
}
