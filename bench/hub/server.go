package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/thox-ai/thoxbuild/manifests"
)

// server is a process with an empty store that goes when it stops.
type server struct {
	cmd      *exec.Cmd
	url, dir string
}

func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = os.Stderr
	return cmd
}

// timed measures this process.
func timed(fn func() error) (sample, error) {
	var before, after syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
		return sample{}, err
	}
	start := time.Now()
	if err := fn(); err != nil {
		return sample{}, err
	}
	wall := time.Since(start)
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
		return sample{}, err
	}
	cpu := after.Utime.Nano() - before.Utime.Nano() + after.Stime.Nano() - before.Stime.Nano()
	return sample{wall, time.Duration(cpu)}, nil
}

// processor is what a process that has ended took, with its children.
func processor(cmd *exec.Cmd) time.Duration {
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// measure stops the server and adds its share.
func (s *server) measure(took sample, err error) (sample, error) {
	s.stop()
	took.cpu += processor(s.cmd)
	return took, err
}

func startHub(tmp string) (*server, error) {
	dir, err := os.MkdirTemp(tmp, "hub-")
	if err != nil {
		return nil, err
	}
	cmd := command(context.Background(), *thoxbuild, "hub", "serve", "--quiet", "--dir", dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	return &server{cmd, strings.TrimSpace(line), dir}, err
}

func startRegistry(tmp string) (*server, error) {
	dir, err := os.MkdirTemp(tmp, "registry-")
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := ln.Addr().String()
	ln.Close()
	conf := fmt.Sprintf("version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %q}\n", dir, addr)
	path := filepath.Join(dir, "config.yml")
	if err := os.WriteFile(path, []byte(conf), 0o644); err != nil {
		return nil, err
	}
	cmd := exec.Command(*registry, "serve", path)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{cmd, addr, dir}
	for range 100 {
		if resp, err := http.Get("http://" + addr + "/v2/"); err == nil {
			resp.Body.Close()
			return s, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.stop()
	return nil, fmt.Errorf("%s does not answer on %s", *registry, addr)
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	_ = os.RemoveAll(s.dir)
}

// resetPeak makes the kernel forget the highest memory so far.
func (s *server) resetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.cmd.Process.Pid), []byte("5"), 0o644)
}

// peak is the highest resident memory since then.
func (s *server) peak() string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return err.Error()
	}
	for _, line := range strings.Split(string(b), "\n") {
		if v, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strings.TrimSpace(v)
		}
	}
	return "?"
}

func variantName(i int) string {
	return fmt.Sprintf("torch%d-cxx11-%s-x86_64-linux", 210+i/6, []string{"cpu", "cu126", "cu128", "cu130", "xpu20252", "rocm71"}[i%6])
}

// writeVariants makes variants whose one large file does not compress, as
// machine code hardly does.
func writeVariants(dir string, n int, size int64) error {
	for i := range n {
		name := variantName(i)
		v, err := manifests.ParseVariantName(name)
		if err != nil {
			return err
		}
		folder := filepath.Join(dir, "build", name)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		m := &manifests.Metadata{
			Name: "bench", ID: "_bench_1234567", Version: 1, License: "MIT", PythonDepends: []string{},
			Backend:    manifests.MetadataBackend{Type: v.Compute.Backend},
			Provenance: &manifests.Provenance{KernelBuilder: manifests.Builder{Version: "bench"}, Kernel: &manifests.Commit{SHA: strings.Repeat("a", 40)}},
			Digest:     &manifests.Digest{Algorithm: manifests.SHA256, Files: map[string]string{}},
		}
		var seed [32]byte
		copy(seed[:], name)
		for file, r := range map[string]io.Reader{
			"__init__.py": strings.NewReader("from ._ops import ops\n"), "_ops.py": strings.NewReader("ops = None\n"),
			"weights.bin": io.LimitReader(rand.NewChaCha8(seed), size),
		} {
			f, err := os.Create(filepath.Join(folder, file))
			if err != nil {
				return err
			}
			h := sha256.New()
			_, err = io.Copy(io.MultiWriter(f, h), r)
			if cerr := f.Close(); err == nil {
				err = cerr
			}
			if err != nil {
				return err
			}
			m.Digest.Files[file] = base64.StdEncoding.EncodeToString(h.Sum(nil))
		}
		b, err := m.Print()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, manifests.MetadataFile), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}
