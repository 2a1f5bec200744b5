package tests

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/source"
	"github.com/thox-ai/thoxbuild/hub/verify"
)

const killRepo = "thox-ai/demo"

var killVariants = []string{"torch-cpu", "torch-cuda", "torch-xpu"}

// killRuns is 15, or 300 for the whole suite.
func killRuns() int {
	if os.Getenv("THOXBUILD_TEST_FULL") == "1" {
		return 300
	}
	return 15
}

// TestKilled kills real processes with SIGKILL, the publisher, the Hub or both,
// at seeded moments of a publish and a pull. However it goes: every revision
// that a reader can reach is whole, a rerun completes, and no commit is made
// twice.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts many processes")
	}
	// How long an undisturbed publish takes says which moments there are.
	k := newKillRun(t)
	k.serve()
	start := time.Now()
	k.must("publish", "--repo", killRepo, "--partial")
	whole := time.Since(start)
	k.kill(k.hub)

	hits := map[string]int{}
	for seed := range killRuns() {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { killRun(t, uint64(seed), whole, hits) })
	}
	t.Logf("%d runs, a publish takes %v; %v", killRuns(), whole.Round(time.Millisecond), hits)
	// The line of the fault table: see the target faults of the Makefile.
	t.Logf("FAULTS|kill -9: publisher, Hub, both, pull|%d|%d|%d|%d|%.1f|%.1f", killRuns(), hits["survived"],
		hits["publisher"]+hits["server"]+hits["both"]+hits["pull"], 3*killRuns(), float64(hits["payload"])/1e6, float64(hits["resent"])/1e6)
	if hits["publisher"] == 0 || hits["server"] == 0 || hits["both"] == 0 || hits["pull"] == 0 {
		t.Errorf("not every process was killed while it ran: %v", hits)
	}
}

func killRun(t *testing.T, seed uint64, whole time.Duration, hits map[string]int) {
	rng := rand.New(rand.NewPCG(seed, 7))
	k := newKillRun(t)
	defer func() {
		if !t.Failed() {
			hits["survived"]++
		}
	}()
	k.serve()
	for generation := range 2 {
		for _, v := range killVariants {
			writeVariant(t, filepath.Join(k.kernel, "build", v), 1, fmt.Sprint(v, seed, generation))
		}
		victim := []string{"publisher", "server", "both"}[rng.IntN(3)]
		p := k.start("publish", "--repo", killRepo, "--partial")
		time.Sleep(time.Duration(rng.Int64N(int64(whole) * 11 / 10)))
		alive := true
		select {
		case <-p.done:
			alive = false
		default:
		}
		if alive {
			hits[victim]++
		}
		if victim != "server" {
			k.kill(p)
		}
		if victim != "publisher" {
			k.kill(k.hub)
			k.must("hub", "fsck", "--dir", k.store)
			k.serve() // a publisher that lives goes on with the new process
		}
		<-p.done
		k.checkWhole()
		// What the rerun sends is at most what was sent twice.
		var rerun struct {
			Sent int `json:"bytes_sent"`
		}
		if err := json.Unmarshal([]byte(k.must("publish", "--repo", killRepo, "--partial", "--output-json", "-")), &rerun); err != nil {
			t.Error(err)
		}
		for _, v := range killVariants {
			if fi, err := os.Stat(filepath.Join(k.kernel, "build", v, "weights.bin")); err == nil {
				hits["payload"] += int(fi.Size())
			}
		}
		hits["resent"] += rerun.Sent
		if n := k.checkWhole(); n != 2+generation {
			t.Errorf("generation %d: %d commits on v1, want %d\n%s", generation, n, 2+generation, k.log.String())
		}
		if out := k.must("publish", "--repo", killRepo, "--partial", "--output-json", "-"); !strings.Contains(out, `"status": "no_changes"`) {
			t.Errorf("generation %d: the rerun left something to do: %s", generation, out)
		}
		k.must("verify", "--lock", k.lock())
	}

	cache := filepath.Join(k.dir, "cache")
	p := k.start("pull", "--lock", k.lock(), "--dir", cache)
	time.Sleep(time.Duration(rng.Int64N(int64(whole))))
	select {
	case <-p.done:
	default:
		hits["pull"]++
	}
	k.kill(p)
	// A variant's folder exists only when it is whole: the library trusts it.
	for _, v := range killVariants {
		found, err := filepath.Glob(filepath.Join(cache, "*", "snapshots", "*", "build", v))
		if err != nil {
			t.Fatal(err)
		}
		if len(found) > 0 {
			k.must("verify", "--lock", k.lock(), "--cache", cache, "--variant", v)
		}
	}
	k.must("pull", "--lock", k.lock(), "--dir", cache)
	k.must("verify", "--lock", k.lock(), "--cache", cache)
	k.kill(k.hub)
	k.must("hub", "fsck", "--dir", k.store)
}

// process is a started thoxbuild.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// killing holds the folders and processes of one run.
type killing struct {
	t                  *testing.T
	dir, kernel, store string
	addr               string
	hub                *process
	log                *bytes.Buffer
}

func newKillRun(t *testing.T) *killing {
	k := &killing{t: t, dir: t.TempDir(), addr: "127.0.0.1:0", log: &bytes.Buffer{}}
	k.kernel, k.store = filepath.Join(k.dir, "kernel"), filepath.Join(k.dir, "hub")
	ext := filepath.Join(k.kernel, "torch-ext", "demo")
	if err := os.MkdirAll(ext, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		filepath.Join(ext, "__init__.py"):     "",
		filepath.Join(k.kernel, "build.toml"): "[general]\nname = \"demo\"\nversion = 1\nedition = 5\nlicense = \"mit\"\nbackends = [\"cpu\", \"cuda\", \"xpu\"]\n\n[torch-noarch]\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range killVariants {
		writeVariant(t, filepath.Join(k.kernel, "build", v), 1, v)
	}
	t.Cleanup(func() {
		if k.hub != nil {
			k.kill(k.hub)
		}
	})
	return k
}

func (k *killing) lock() string { return filepath.Join(k.kernel, "thoxbuild.lock") }

func (k *killing) command(args ...string) *exec.Cmd {
	path, err := exec.LookPath("thoxbuild") // put there by TestMain
	if err != nil {
		k.t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = k.kernel
	cmd.Env = append(os.Environ(), "HOME="+k.dir, "HF_ENDPOINT=http://"+k.addr, "HF_TOKEN=", "HF_HOME="+k.dir)
	return cmd
}

func (k *killing) start(args ...string) *process {
	cmd := k.command(args...)
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	p := &process{cmd, make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(p.done)
	}()
	return p
}

func (k *killing) kill(p *process) {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// must runs a command that has to succeed and returns its stdout.
func (k *killing) must(args ...string) string {
	k.t.Helper()
	cmd := k.command(args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	fmt.Fprintf(k.log, "$ thoxbuild %s\n%s%s", strings.Join(args, " "), out, errs.String())
	if err != nil {
		k.t.Fatalf("thoxbuild %s: %v\n%s%s", strings.Join(args, " "), err, out, errs.String())
	}
	return string(out)
}

// serve starts the Hub, at the address that it had before.
func (k *killing) serve() {
	cmd := k.command("hub", "serve", "--quiet", "--dir", k.store, "--addr", k.addr)
	out, w, err := os.Pipe()
	if err != nil {
		k.t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = w, k.log
	if err := cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	w.Close()
	k.hub = &process{cmd, make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(k.hub.done)
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		k.t.Fatalf("hub serve: %v\n%s", err, k.log.String())
	}
	k.addr = strings.TrimPrefix(strings.TrimSpace(line), "http://")
	go func() { _, _ = io.Copy(io.Discard, out) }()
}

// checkWhole verifies every commit of the branch and counts them. Each holds
// all variants or none, and each variant is what its metadata says.
func (k *killing) checkWhole() int {
	k.t.Helper()
	c, err := client.New(client.Config{Endpoint: "http://" + k.addr})
	if err != nil {
		k.t.Fatal(err)
	}
	repo, err := client.ParseRepo(client.Kernel, killRepo)
	if err != nil {
		k.t.Fatal(err)
	}
	commits, err := c.Commits(k.t.Context(), repo, "v1")
	if err != nil {
		return 0 // not published at all yet
	}
	for _, commit := range commits {
		r, err := verify.Run(k.t.Context(), &source.Hub{Client: c, Repo: repo, Commit: commit.ID}, verify.Options{})
		if err != nil {
			k.t.Fatal(err)
		}
		if !r.OK() || len(r.Variants) != 0 && len(r.Variants) != len(killVariants) {
			k.t.Errorf("commit %s is half published: %d variants, %v", commit.ID, len(r.Variants), r.Problems)
		}
	}
	return len(commits)
}
