package remote

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"github.com/bazelbuild/remote-apis/build/bazel/semver"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/thox-ai/thoxbuild/compile/action"
	"github.com/thox-ai/thoxbuild/compile/action/actiontest"
)

func TestMain(m *testing.M) {
	firstPause = time.Millisecond
	os.Exit(m.Run())
}

// times makes a fault that happens n times.
func times(n int) func() bool {
	return func() bool { n--; return n >= 0 }
}

// on makes a fault of one method.
func on(method string, code codes.Code, happens func() bool) func(string) error {
	return func(m string) error {
		if m == method && happens() {
			return status.Error(code, "made to fail")
		}
		return nil
	}
}

func always() bool { return true }

// copying is an action whose output is its input, with the input in m.
func copying(m *actiontest.Memory, text string) *action.Spec {
	s := actiontest.Shell("cat in > o && echo said", "o")
	s.Inputs = []action.File{{Path: "in", Digest: m.Add(text)}}
	return s
}

// megabytes are n MB that nobody has seen before.
func megabytes(n int) string {
	return strings.Repeat(fmt.Sprintf("%016x", rand.Uint64()), n<<16)
}

// TestFaults lets one thing go wrong in each case. The action succeeds all the
// same, at the price that the case allows.
func TestFaults(t *testing.T) {
	const size = 5 // MB, in streams, for the server's batches hold one
	for name, c := range map[string]struct {
		mb    int
		fault func(*server)
		check func(*testing.T, *server)
	}{
		"nothing": {mb: 1, check: func(t *testing.T, s *server) {
			if s.calls["Execute"] != 1 || s.calls["WaitExecution"] != 0 || s.calls["GetCapabilities"] != 1 {
				t.Errorf("calls %v", s.calls)
			}
		}},
		"reads are cut": {mb: size, fault: func(s *server) { s.readCut = func() int { return 700 << 10 } }, check: func(t *testing.T, s *server) {
			if s.out > (size+1)<<20 || len(s.offsets) < 5 {
				t.Errorf("%d bytes sent from offsets %v: not resumed", s.out, s.offsets)
			}
		}},
		"writes are cut": {mb: size, fault: func(s *server) { s.writeCut = func() int { return 1 << 20 } }, check: func(t *testing.T, s *server) {
			if s.in > (2*size)<<20 || s.calls["QueryWriteStatus"] < 3 {
				t.Errorf("%d bytes received, calls %v: not resumed", s.in, s.calls)
			}
		}},
		"a write is cut and can't be resumed": {mb: size, fault: func(s *server) {
			cut := times(2)
			s.noResume = true
			s.writeCut = func() int {
				if cut() {
					return 1 << 20
				}
				return 0
			}
		}},
		"a download arrives damaged": {mb: size, fault: func(s *server) {
			once := times(1)
			s.corrupt = func(d string) bool { return strings.HasSuffix(d, fmt.Sprintf("/%d", size<<20)) && once() }
		}},
		"a batch arrives damaged": {fault: func(s *server) {
			once := times(1)
			s.corrupt = func(d string) bool { return strings.HasSuffix(d, "/5") && once() }
		}},
		"an input is lost": {fault: func(s *server) {
			once := times(1)
			s.lose = func(d string) bool { return strings.HasSuffix(d, "/5") && once() }
		}, check: func(t *testing.T, s *server) {
			if s.calls["Execute"] != 2 {
				t.Errorf("calls %v", s.calls)
			}
		}},
		"the stream of an action is cut": {fault: func(s *server) { s.cutExecute = times(3) }, check: func(t *testing.T, s *server) {
			if s.calls["Execute"] != 1 || s.calls["WaitExecution"] != 3 || len(s.ops) != 1 {
				t.Errorf("calls %v", s.calls)
			}
		}},
		"the operation is lost": {fault: func(s *server) { s.cutExecute, s.forgetOp = times(2), times(1) }, check: func(t *testing.T, s *server) {
			if s.calls["Execute"] != 2 || s.calls["WaitExecution"] == 0 {
				t.Errorf("calls %v", s.calls)
			}
		}},
		"the worker dies": {fault: func(s *server) {
			once := times(1)
			s.answer = func() *repb.ExecuteResponse {
				if once() {
					return &repb.ExecuteResponse{Status: status.New(codes.Unavailable, "worker died").Proto()}
				}
				return nil
			}
		}},
		"GetCapabilities fails twice":      {fault: func(s *server) { s.fail = on("GetCapabilities", codes.Unavailable, times(2)) }},
		"GetActionResult fails":            {fault: func(s *server) { s.fail = on("GetActionResult", codes.ResourceExhausted, times(2)) }},
		"GetActionResult is not known":     {fault: func(s *server) { s.fail = on("GetActionResult", codes.Unimplemented, always) }},
		"FindMissingBlobs fails":           {fault: func(s *server) { s.fail = on("FindMissingBlobs", codes.Aborted, times(3)) }},
		"BatchUpdateBlobs fails":           {fault: func(s *server) { s.fail = on("BatchUpdateBlobs", codes.Unavailable, times(3)) }},
		"BatchReadBlobs is not known":      {fault: func(s *server) { s.fail = on("BatchReadBlobs", codes.Unimplemented, always) }},
		"Execute fails":                    {fault: func(s *server) { s.fail = on("Execute", codes.ResourceExhausted, times(4)) }},
		"Execute does not know it":         {fault: func(s *server) { s.fail = on("Execute", codes.NotFound, times(1)) }},
		"WaitExecution fails":              {fault: func(s *server) { s.cutExecute, s.fail = times(1), on("WaitExecution", codes.Unavailable, times(3)) }},
		"a proxy's time for Execute is up": {fault: func(s *server) { s.fail = on("Execute", codes.DeadlineExceeded, times(1)) }},
		"QueryWriteStatus fails": {mb: size, fault: func(s *server) {
			s.writeCut, s.fail = func() int { return 1 << 20 }, on("QueryWriteStatus", codes.Unavailable, times(2))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, url := newServer(t, nil)
			if c.fault != nil {
				c.fault(s)
			}
			e, m := newExecutor(t, Config{URL: url}), &actiontest.Memory{}
			text := "small"
			if c.mb > 0 {
				text = megabytes(c.mb)
			}
			res, err := e.Run(t.Context(), m.Request(t, copying(m, text)), m)
			if err != nil || res.ExitCode != 0 || string(res.Log) != "said\n" || res.Where != Where || res.Cached && name != "the operation is lost" {
				t.Fatalf("%+v: %v", res, err)
			}
			if o, _ := res.Output("o"); o.Digest != action.DigestOf([]byte(text)) {
				t.Errorf("output %v", o)
			}
			if c.check != nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				c.check(t, s)
			}
		})
	}
}

// TestHopeless lets one thing go wrong for good. The error says what, is not
// asked for again and again, and nothing wrong is stored.
func TestHopeless(t *testing.T) {
	for name, c := range map[string]struct {
		fault  func(*server)
		want   string // in the error
		hint   string
		method string
		calls  int
	}{
		"damaged": {fault: func(s *server) { s.corrupt = func(d string) bool { return strings.HasSuffix(d, "/5") } },
			want: "other bytes than those of the digest", method: "Read", calls: 2},
		"forbidden": {fault: func(s *server) { s.fail = on("GetActionResult", codes.PermissionDenied, always) },
			want: "ask for a result: made to fail (PermissionDenied)", hint: "--remote-header", method: "GetActionResult", calls: 1},
		"refused": {fault: func(s *server) { s.fail = on("BatchUpdateBlobs", codes.InvalidArgument, always) },
			want: "send files: made to fail (InvalidArgument)", method: "BatchUpdateBlobs", calls: 1},
		"gone": {fault: func(s *server) { s.fail = on("FindMissingBlobs", codes.Unavailable, always) },
			want: "ask which files it lacks: made to fail (Unavailable)", hint: "see whether the server runs", method: "FindMissingBlobs", calls: attempts},
		"does not execute": {fault: func(s *server) { s.fail = on("Execute", codes.Internal, always) },
			want: "execute the action: made to fail (Internal)", method: "Execute", calls: 1},
		"wrong instance": {fault: func(s *server) { s.fail = on("Execute", codes.NotFound, always) },
			want: "made to fail (NotFound)", method: "Execute", calls: 2},
		"loses inputs": {fault: func(s *server) { s.lose = func(d string) bool { return strings.HasSuffix(d, "/5") } },
			want: "lost inputs", hint: "quota", method: "Execute", calls: 2},
		"too long": {fault: func(s *server) {
			s.answer = func() *repb.ExecuteResponse {
				return &repb.ExecuteResponse{Status: status.New(codes.DeadlineExceeded, "Action timeout reached").Proto()}
			}
		}, want: "longer than it allows", method: "Execute", calls: 1},
		"no result": {fault: func(s *server) { s.answer = func() *repb.ExecuteResponse { return &repb.ExecuteResponse{} } },
			want: "no result", method: "Execute", calls: 1},
		"no execution": {fault: func(s *server) { s.caps.ExecutionCapabilities = nil },
			want: "it does not execute actions here", hint: "--remote-instance", method: "GetActionResult"},
		"no storage": {fault: func(s *server) { s.caps.CacheCapabilities = nil }, want: "no content-addressable storage", method: "Execute"},
		"another digest": {fault: func(s *server) {
			s.caps.CacheCapabilities.DigestFunctions = []repb.DigestFunction_Value{repb.DigestFunction_SHA1}
		}, want: "digest functions are [SHA1], expected SHA256", method: "Execute"},
		"executes with another digest": {fault: func(s *server) { s.caps.ExecutionCapabilities.DigestFunction = repb.DigestFunction_BLAKE3 },
			want: "BLAKE3 digests, expected SHA256", method: "Execute"},
		"another version": {fault: func(s *server) {
			s.caps.LowApiVersion, s.caps.HighApiVersion = &semver.SemVer{Major: 3}, &semver.SemVer{Major: 3, Minor: 1}
		}, want: "versions 3.0 to 3.1 of the Remote Execution API, expected 2", method: "Execute"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, url := newServer(t, nil)
			c.fault(s)
			e, m := newExecutor(t, Config{URL: url}), &actiontest.Memory{}
			spec := copying(m, "input")
			spec.Args[2] = "cat in in | tail -c 5 > o" // its own blob of five bytes, where it matters
			_, err := e.Run(t.Context(), m.Request(t, spec), m)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			var hinted interface{ UserHint() string }
			if c.hint != "" && (!errors.As(err, &hinted) || !strings.Contains(hinted.UserHint(), c.hint)) {
				t.Errorf("%v: no hint with %q", err, c.hint)
			}
			if n := s.count(c.method); n != c.calls {
				t.Errorf("%s was called %d times, expected %d", c.method, n, c.calls)
			}
			if errors.Is(err, action.ErrTimeout) != (name == "too long") {
				t.Errorf("%v: timeout or not", err)
			}
		})
	}
}

// TestCache takes results from the action cache, and runs what it can't give.
func TestCache(t *testing.T) {
	s, url := newServer(t, nil)
	m := &actiontest.Memory{}
	spec := copying(m, "text")
	spec.Args[2] = "cat in in > o && echo said"
	// Each with an executor of its own, as after a new start.
	do := func(what string, cached bool, executions int) {
		t.Helper()
		out := &actiontest.Memory{}
		res, err := newExecutor(t, Config{URL: url}).Run(t.Context(), m.Request(t, spec), out)
		if err != nil || res.Cached != cached || string(res.Log) != "said\n" {
			t.Errorf("%s: %+v, %v", what, res, err)
			return
		}
		if got, _ := out.Get(res.Outputs[0].Digest); got != "texttext" {
			t.Errorf("%s: output %q", what, got)
		}
		if n := s.count("Execute"); n != executions {
			t.Errorf("%s: executed %d times, expected %d", what, n, executions)
		}
	}
	do("the first", false, 1)
	do("the second", true, 1)
	result := func() *repb.ActionResult {
		for _, r := range s.results {
			return r
		}
		t.Fatal("no result")
		return nil
	}
	s.mu.Lock()
	delete(s.blobs, key(result().OutputFiles[0].Digest))
	s.mu.Unlock()
	do("an output is lost", false, 2)
	s.mu.Lock()
	result().ExitCode = 1
	s.mu.Unlock()
	do("a failure is in the cache", false, 3)
	s.mu.Lock()
	result().OutputFiles[0].Path = "../o"
	s.mu.Unlock()
	do("the outputs are others", false, 4)
}

// TestSentOnce sends a tool once, and asks about it once in a process.
func TestSentOnce(t *testing.T) {
	s, url := newServer(t, nil)
	dir := t.TempDir()
	for name, text := range map[string]string{"bin/copy": "#!/bin/sh\ncat \"${0%/*}/../lib/link\" \"${0%/*}/../../text-2/beside\" \"$1\" > \"$2\"\necho \"$0: done\"\n", "lib/text": "library\n", "lib/more": strings.Repeat("x", 1<<20)} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(filepath.Join(dir, "lib/text"), 0o644), os.Symlink("text", filepath.Join(dir, "lib/link"))); err != nil {
		t.Fatal(err)
	}
	text := t.TempDir() // a tool that the other one finds beside it
	if err := os.WriteFile(filepath.Join(text, "beside"), []byte("beside\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	here := t.TempDir()
	if err := os.Symlink("/bin/sh", filepath.Join(here, "sh")); err != nil {
		t.Fatal(err)
	}
	config := Config{URL: url, ToolRoot: "/opt/thox/", Tools: func(name string) (string, []string, error) {
		return map[string]string{"copy-1.0": dir, "installed": here, "text-2": text}[name], map[string][]string{"copy-1.0": {"text-2"}, "text-2": {"copy-1.0"}}[name], nil
	}}
	m := &actiontest.Memory{}
	spec := func(text string) *action.Spec {
		return &action.Spec{Label: "copy", Args: []string{"/opt/thox/copy-1.0/bin/copy", "in", "o"}, Env: map[string]string{"PATH": "/usr/bin:/bin"},
			Inputs: []action.File{{Path: "in", Digest: m.Add(text)}}, Outputs: []string{"o"}}
	}
	var in int64
	var asked int
	for i, c := range []struct {
		fresh       bool
		maxIn       int64
		maxAsked    int
		description string
	}{{true, 2 << 20, 100, "a cluster that knows nothing"}, {false, 4 << 10, 6, "the same process"}, {true, 4 << 10, 100, "another process"}} {
		e := newExecutor(t, config)
		if !c.fresh {
			if _, err := e.Run(t.Context(), m.Request(t, spec("0")), m); err != nil { // cached: sends nothing
				t.Fatal(err)
			}
			if _, err := e.Run(t.Context(), m.Request(t, spec("more")), m); err != nil {
				t.Fatal(err)
			}
			in, asked = s.in, s.asked
		}
		res, err := e.Run(t.Context(), m.Request(t, spec(fmt.Sprint(i))), m)
		if err != nil || res.ExitCode != 0 || res.Where != Where || res.Cached {
			t.Fatalf("%s: %+v, %v", c.description, res, err)
		}
		if got, _ := m.Get(res.Outputs[0].Digest); got != fmt.Sprintf("library\nbeside\n%d", i) {
			t.Errorf("%s: output %q", c.description, got)
		}
		if want := filepath.Join(dir, "bin/copy") + ": done\n"; string(res.Log) != want {
			t.Errorf("%s: printed %q, want %q", c.description, res.Log, want)
		}
		if n, a := s.in-in, s.asked-asked; n > c.maxIn || a > c.maxAsked {
			t.Errorf("%s: %d bytes sent, %d digests asked about", c.description, n, a)
		}
		in, asked = s.in, s.asked
	}

	// A tool that leads out of the store can't travel.
	s0 := actiontest.Shell("cat in > o", "o")
	s0.Args = append([]string{"/bin/sh", "-c", s0.Args[2]}, "/opt/thox/installed/sh")
	s0.Inputs = []action.File{{Path: "in", Digest: m.Add("here")}}
	if res, err := newExecutor(t, config).Run(t.Context(), m.Request(t, s0), m); err != nil || res.Where != "" || res.ExitCode != 0 {
		t.Errorf("a tool of this machine: %+v, %v", res, err)
	}
	// Nor can what runs on macOS.
	s0.Args, s0.Platform = s0.Args[:3], map[string]string{"OSFamily": "macos"}
	if res, err := newExecutor(t, config).Run(t.Context(), m.Request(t, s0), m); err != nil || res.Where != "" {
		t.Errorf("for macOS: %+v, %v", res, err)
	}
}

// TestCancelTellsTheServer ends builds at each stage of an action.
func TestCancelTellsTheServer(t *testing.T) {
	s, url := newServer(t, nil)
	s.hang = true
	e, m := newExecutor(t, Config{URL: url}), &actiontest.Memory{}
	ctx, cancel := context.WithCancel(t.Context())
	req := m.Request(t, copying(m, "x"))
	req.Started = func(string) { cancel() }
	start := time.Now()
	if _, err := e.Run(ctx, req, m); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("took %v", d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.cancelled) != 1 || s.cancelled[0] != "op/1" {
		t.Errorf("cancelled %v", s.cancelled)
	}
}

// TestStorm makes every method of the server fail at random, cuts streams and
// damages blobs, while many actions run. All of them end, with the right bytes.
func TestStorm(t *testing.T) {
	seeds := 3
	if os.Getenv("THOXBUILD_TEST_FULL") == "1" {
		seeds = 60
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s, url := newServer(t, nil)
			rng := rand.New(rand.NewPCG(uint64(seed), 5))
			often := func(percent int) bool { return rng.IntN(100) < percent }
			faults := 0
			bad := func(percent int) bool {
				hit := often(percent)
				if hit {
					faults++
				}
				return hit
			}
			s.fail = func(method string) error {
				if bad(15) {
					return status.Error([]codes.Code{codes.Unavailable, codes.Aborted, codes.ResourceExhausted}[rng.IntN(3)], "storm")
				}
				return nil
			}
			cut := func() int {
				if bad(30) {
					return 1 + rng.IntN(2<<20)
				}
				return 0
			}
			s.readCut, s.writeCut = cut, cut
			s.corrupt = func(string) bool { return bad(2) }
			s.cutExecute, s.forgetOp = func() bool { return bad(15) }, func() bool { return bad(10) }
			e, m := newExecutor(t, Config{URL: url}), &actiontest.Memory{}
			var wg sync.WaitGroup
			for i := range 12 {
				text := fmt.Sprint("text ", i, seed)
				if i%4 == 0 {
					text = megabytes(3)
				}
				wg.Go(func() {
					res, err := e.Run(t.Context(), m.Request(t, copying(m, text)), m)
					if err != nil {
						t.Errorf("action %d: %v", i, err)
						return
					}
					if o, _ := res.Output("o"); res.ExitCode != 0 || o.Digest != action.DigestOf([]byte(text)) {
						t.Errorf("action %d: %+v", i, res)
					}
				})
			}
			wg.Wait()
			if faults == 0 {
				t.Error("nothing went wrong")
			}
			t.Logf("%d faults, calls %v", faults, s.calls)
		})
	}
}
