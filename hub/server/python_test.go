package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// python finds an interpreter that has the unmodified clients, in the virtual
// environment of that name.
func python(t *testing.T, venv string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: the Python clients take seconds to start")
	}
	p := filepath.Join("..", "..", venv, "bin", "python")
	if out, err := exec.Command(p, "-c", "import huggingface_hub").CombinedOutput(); err != nil {
		t.Skipf("no Python with huggingface_hub in %s: run `make venv` (%v)\n%s", venv, err, out)
	}
	abs, err := filepath.Abs(p)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// session runs a script of testdata against a Hub, in an empty HF_HOME.
func session(t *testing.T, venv, url, script string, env ...string) string {
	t.Helper()
	py := python(t, venv)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, py, filepath.Join("testdata", script))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = append(os.Environ(), "HF_HOME="+t.TempDir(), "HF_ENDPOINT="+url, "HF_HUB_DISABLE_TELEMETRY=1", "WORK="+t.TempDir(),
		"HF_HUB_DISABLE_PROGRESS_BARS=1", "HF_XET_TELEMETRY_ENABLED=0", "HF_TOKEN=hf_test", "PYTHONDONTWRITEBYTECODE=1")
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "SESSION OK") {
		t.Fatalf("%s %v: %v\n%s", script, env, err, out)
	}
	return string(out)
}

// clients are the virtual environments and what each version can use. 1.10.0
// asks the LFS API how to send files, and this Hub never answers Xet there.
var clients = []struct {
	venv       string
	transports []string
}{
	{".venv", []string{"xet", "lfs", "multipart"}},
	{".venvs/hub-1.10", []string{"lfs", "multipart"}},
}

// TestPythonHub is the whole life of a repository, as two versions of
// huggingface_hub see it. `make conformance` prints it as a table.
func TestPythonHub(t *testing.T) {
	size := "20"
	if os.Getenv("THOXBUILD_TEST_FULL") == "1" {
		size = "150"
	}
	table := &conformance{result: map[string]string{}}
	for _, c := range clients {
		for _, typ := range []string{"kernel", "model"} {
			for _, transport := range c.transports {
				if size == "20" && strings.Contains(c.venv, "1.10") && (transport == "multipart") != (typ == "kernel") {
					continue // the rest is for the whole suite
				}
				t.Run(filepath.Base(c.venv)+"/"+typ+"/"+transport, func(t *testing.T) { pythonHub(t, table, c.venv, typ, transport, size) })
			}
		}
	}
	table.print(t)
}

// conformance gathers what the sessions print: a line per operation and client.
type conformance struct {
	operations, clients []string
	result              map[string]string
}

func (c *conformance) add(out string) {
	for line := range strings.SplitSeq(out, "\n") {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 6 || f[0] != "CONFORMANCE" {
			continue
		}
		client := strings.Join(f[1:4], " ")
		if !slices.Contains(c.clients, client) {
			c.clients = append(c.clients, client)
		}
		if !slices.Contains(c.operations, f[4]) {
			c.operations = append(c.operations, f[4])
		}
		c.result[client+f[4]] = f[5]
	}
}

// print logs the table, a column for each client. The Makefile finds its lines
// by their first word.
func (c *conformance) print(t *testing.T) {
	for i, client := range c.clients {
		t.Logf("TABLE %c = huggingface_hub %s", 'A'+i, client)
	}
	for _, op := range c.operations {
		line := fmt.Sprintf("%-54s", op)
		for _, client := range c.clients {
			line += map[string]string{"ok": "  ok", "client refuses": "  - "}[c.result[client+op]]
		}
		t.Log("TABLE", line)
	}
	t.Log("TABLE -: that version of the client has no such operation for the type, and asks nothing of the Hub")
}

func pythonHub(t *testing.T, table *conformance, venv, typ, transport, size string) {
	var log strings.Builder
	_, s := newHub(t, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		o.PartSize = 1 << 30 // basic for every file
		if transport == "multipart" {
			o.PartSize = 5 << 20
		}
	})
	cut := &cutOnce{next: s, file: "/resume.bin", after: 11 << 20}
	hs := httptest.NewServer(cut)
	defer hs.Close()
	env := []string{"REPO_TYPE=" + typ, "LARGE_MB=" + size, "TRANSPORT=" + transport}
	if transport != "xet" {
		env = append(env, "HF_HUB_DISABLE_XET=1")
	}
	out := session(t, venv, hs.URL, "hub_session.py", env...)
	t.Log("\n" + out)
	table.add(out)
	hs.Close() // the log is complete
	if strings.Contains(out, "upload_folder, unchanged|ok") {
		want := map[string]string{"xet": "/v1/shards ", "lfs": "/api/lfs/put/", "multipart": "/api/lfs/join/"}
		for name, path := range want {
			if got := strings.Contains(log.String(), path); got != (name == transport) && !(name == "lfs" && transport == "multipart") {
				t.Errorf("requests to %s seen: %v, with the transport %s", path, got, transport)
			}
		}
	}
	if len(cut.resumed) == 0 || cut.resumed[0] != "bytes=10485760-" {
		t.Errorf("the download that was cut went on with the ranges %q, want bytes=10485760-", cut.resumed)
	}
}

// cutOnce breaks the first download of a file off after some bytes and notes
// the ranges that are asked for then.
type cutOnce struct {
	next  http.Handler
	file  string
	after int64

	mu      sync.Mutex
	done    bool
	resumed []string
}

// ServeHTTP implements http.Handler.
func (c *cutOnce) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, c.file) {
		c.mu.Lock()
		cut := !c.done
		c.done = true
		if h := r.Header.Get("Range"); h != "" {
			c.resumed = append(c.resumed, h)
		}
		c.mu.Unlock()
		if cut {
			w = &shortWriter{w, c.after}
		}
	}
	c.next.ServeHTTP(w, r)
}

type shortWriter struct {
	http.ResponseWriter
	left int64
}

// Write implements io.Writer.
func (s *shortWriter) Write(p []byte) (int, error) {
	n, err := s.ResponseWriter.Write(p[:min(int64(len(p)), s.left)])
	if s.left -= int64(n); s.left == 0 {
		s.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}

// TestPythonKernels asks what the kernel loader asks.
func TestPythonKernels(t *testing.T) {
	hs, _ := newHub(t)
	// With telemetry off, kernels 0.17.2 ends its User-Agent in a space and its
	// own HTTP library refuses that; what it would send is a longer User-Agent
	// to this same server.
	t.Log(session(t, ".venv", hs.URL, "kernels_session.py", "HF_HUB_DISABLE_TELEMETRY="))
}
