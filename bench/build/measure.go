package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// sample is one measured run of a command and everything that it started.
type sample struct {
	wall, cpu time.Duration
	peak      int64 // bytes: the most that the processes held at one time, sampled
	largest   int64 // bytes: the most that any single one held
	stdout    []byte
	stderr    []byte
}

func (s sample) add(o sample) sample {
	s.wall, s.cpu = s.wall+o.wall, s.cpu+o.cpu
	s.peak, s.largest = max(s.peak, o.peak), max(s.largest, o.largest)
	return s
}

// measure runs a command to its end. cpu is that of all its descendants that
// were waited for.
func measure(ctx context.Context, cwd string, env []string, args ...string) (sample, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = cwd
	cmd.Env = append(os.Environ(), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return sample{}, err
	}
	done, peak := make(chan struct{}), make(chan int64)
	go func() {
		most := int64(0)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				peak <- most
				return
			case <-tick.C:
				most = max(most, resident(cmd.Process.Pid))
			}
		}
	}()
	err := cmd.Wait()
	close(done)
	s := sample{wall: time.Since(start), peak: <-peak, stdout: stdout.Bytes(), stderr: stderr.Bytes()}
	s.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if ru, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		s.largest = ru.Maxrss * 1024
	}
	s.peak = max(s.peak, s.largest)
	if err != nil {
		return s, fmt.Errorf("%s: %w\n%s%s", strings.Join(args, " "), err, tail(s.stdout), tail(s.stderr))
	}
	return s, nil
}

func tail(b []byte) []byte { return b[max(0, len(b)-4000):] }

// resident is the memory of a process and its descendants.
func resident(root int) int64 {
	procs, _ := filepath.Glob("/proc/[0-9]*/stat")
	parent, pages := map[int]int{}, map[int]int64{}
	for _, p := range procs {
		b, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		_, rest, ok := strings.Cut(string(b), ") ")
		f := strings.Fields(rest)
		if !ok || len(f) < 22 {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(p)))
		parent[pid], _ = strconv.Atoi(f[1])
		pages[pid], _ = strconv.ParseInt(f[21], 10, 64)
	}
	total := int64(0)
	for pid := range pages {
		for p := pid; p > 1; p = parent[p] {
			if p == root {
				total += pages[pid] * int64(os.Getpagesize())
				break
			}
		}
	}
	return total
}

// build runs thoxbuild build and returns its --json summary too.
func build(ctx context.Context, storeDir, out string, args ...string) (sample, summary, error) {
	all := append([]string{*thoxbuild, "-C", *dir, "--store", storeDir, "build", "--json", "--out", out}, args...)
	s, err := measure(ctx, "", nil, all...)
	var sum summary
	if err == nil {
		err = json.Unmarshal(s.stdout, &sum)
	}
	return s, sum, err
}

// summary is what build --json prints.
type summary struct {
	Variants []struct {
		Variant, Dir string
		Cached       bool
	}
	ActionsRun    int     `json:"actions_run"`
	ActionsCached int     `json:"actions_cached"`
	CPU           float64 `json:"cpu_seconds"`
}

// emptyCache makes a store that has another one's tools and no object.
func emptyCache(at string) error {
	if err := os.MkdirAll(filepath.Join(at, "locks"), 0o755); err != nil {
		return err
	}
	pins, err := os.ReadFile(filepath.Join(*store, "locks", "pins.json"))
	if err != nil {
		return fmt.Errorf("%w: run 'thoxbuild toolchain fetch' first", err)
	}
	if err := os.WriteFile(filepath.Join(at, "locks", "pins.json"), pins, 0o644); err != nil {
		return err
	}
	return os.Symlink(filepath.Join(*store, "tools"), filepath.Join(at, "tools"))
}

// compare prints two contenders and the ratio of their runs, pair by pair.
func compare(name, peer string, a, b []sample) {
	var wall, cpu []float64
	for i := range a {
		wall = append(wall, b[i].wall.Seconds()/a[i].wall.Seconds())
		cpu = append(cpu, b[i].cpu.Seconds()/a[i].cpu.Seconds())
	}
	show(name, a)
	show(peer, b)
	fmt.Printf("ratio: %s of wall-clock, %s of processor time (median, least-most, %d pairs)\n", spread(wall), spread(cpu), len(a))
}

func show(name string, runs []sample) {
	var wall, cpu, peak []float64
	for _, s := range runs {
		wall, cpu = append(wall, s.wall.Seconds()), append(cpu, s.cpu.Seconds())
		peak = append(peak, float64(s.peak)/1e6)
	}
	fmt.Printf("%-40s wall %s s, processor %s s, peak memory %.0f MB\n", name, spread(wall), spread(cpu), slices.Max(peak))
}

// spread prints the median with the least and the most.
func spread(xs []float64) string {
	s := slices.Sorted(slices.Values(xs))
	return fmt.Sprintf("%.3g (%.3g-%.3g)", s[len(s)/2], s[0], s[len(s)-1])
}
