package server

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// python finds the interpreter that has the unmodified clients.
func python(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: the Python clients take seconds to start")
	}
	for _, p := range []string{os.Getenv("THOXBUILD_PYTHON"), filepath.Join("..", "..", ".venv", "bin", "python")} {
		if p == "" {
			continue
		}
		if out, err := exec.Command(p, "-c", "import huggingface_hub").CombinedOutput(); err == nil {
			abs, err := filepath.Abs(p)
			if err != nil {
				t.Fatal(err)
			}
			return abs
		} else if os.Getenv("THOXBUILD_PYTHON") != "" {
			t.Fatalf("THOXBUILD_PYTHON: %v\n%s", err, out)
		}
	}
	t.Skip("no Python with huggingface_hub: run `make venv` or set THOXBUILD_PYTHON")
	return ""
}

// session runs a script of testdata against a Hub, in an empty HF_HOME.
func session(t *testing.T, url, script string, env ...string) string {
	t.Helper()
	py := python(t)
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

// TestPythonHub is the whole life of a repository, as huggingface_hub sees it.
func TestPythonHub(t *testing.T) {
	size := "20"
	if os.Getenv("THOXBUILD_TEST_FULL") == "1" {
		size = "150"
	}
	for _, typ := range []string{"kernel", "model"} {
		for _, transport := range []string{"xet", "lfs", "multipart"} {
			t.Run(typ+"/"+transport, func(t *testing.T) {
				var log strings.Builder
				hs, _ := newHub(t, func(o *Options) {
					o.Log = slog.New(slog.NewTextHandler(&log, nil))
					o.PartSize = 1 << 30 // basic for every file
					if transport == "multipart" {
						o.PartSize = 5 << 20
					}
				})
				env := []string{"REPO_TYPE=" + typ, "LARGE_MB=" + size}
				if transport != "xet" {
					env = append(env, "HF_HUB_DISABLE_XET=1")
				}
				t.Log(session(t, hs.URL, "hub_session.py", env...))
				hs.Close() // the log is complete
				want := map[string]string{"xet": "/v1/shards ", "lfs": "/api/lfs/put/", "multipart": "/api/lfs/join/"}
				for name, path := range want {
					if got := strings.Contains(log.String(), path); got != (name == transport) && !(name == "lfs" && transport == "multipart") {
						t.Errorf("requests to %s seen: %v, with the transport %s", path, got, transport)
					}
				}
			})
		}
	}
}

// TestPythonKernels asks what the kernel loader asks.
func TestPythonKernels(t *testing.T) {
	hs, _ := newHub(t)
	// With telemetry off, kernels 0.17.2 ends its User-Agent in a space and its
	// own HTTP library refuses that; what it would send is a longer User-Agent
	// to this same server.
	t.Log(session(t, hs.URL, "kernels_session.py", "HF_HUB_DISABLE_TELEMETRY="))
}
