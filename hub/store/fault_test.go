package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// content is what generation i of the fault workload commits.
func content(i int) map[string][]byte {
	return map[string][]byte{"n": fmt.Append(nil, i), "d/m": fmt.Append(nil, "m", i), "big": bytes.Repeat([]byte{byte(i)}, 4000+i)}
}

// checkGeneration finds which generation main is at and that it is whole.
func checkGeneration(t *testing.T, s *Store) int {
	t.Helper()
	r, err := s.Repo(Kernel, "thox-ai/k")
	if errors.Is(err, ErrRepoNotFound) {
		return -2
	}
	if err != nil {
		t.Fatal(err)
	}
	clean(t, s)
	head := mustResolve(t, r, "main")
	e, err := r.Stat(head, "n")
	if errors.Is(err, ErrEntryNotFound) {
		return -1
	}
	if err != nil {
		t.Fatal(err)
	}
	data, err := r.Blob(e.ID)
	if err != nil {
		t.Fatal(err)
	}
	i, err := strconv.Atoi(string(data))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range content(i) {
		e, err := r.Stat(head, name)
		if err != nil || e.Size != int64(len(want)) {
			t.Fatalf("generation %d: %s has %d bytes, %v; want %d", i, name, e.Size, err, len(want))
		}
	}
	return i
}

// TestDiskFull fails every single step of the file system once, with ENOSPC.
// What was committed stays, and the same commit then succeeds.
func TestDiskFull(t *testing.T) {
	const none = 1 << 30
	steps := 1
	// The first run fails nothing and counts the steps.
	for n := none; n < steps || n == none; n = (n + 1) % (none + 1) {
		count, fail := 0, -1
		s, err := Open(t.TempDir(), Options{Fault: func(op, path string) error {
			if fail >= 0 {
				if count++; count-1 == fail {
					return syscall.ENOSPC
				}
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		r := create(t, s)
		before := mustPut(t, r, "", "0", content(0))
		fail = n
		id, err := put(r, before.String(), "1", content(1))
		steps, fail = max(steps, count), -1
		if err == nil {
			// The step was not reached, or the commit had happened already.
			if n < count && n != none {
				t.Errorf("step %d failed and the commit %v said nothing", n, id)
			}
		} else if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("step %d: %v, want ENOSPC", n, err)
		}
		if got := checkGeneration(t, s); got != 0 && got != 1 {
			t.Errorf("step %d: generation %d, want 0 or 1", n, got)
		}
		again, err := put(r, before.String(), "1", content(1))
		if err != nil {
			t.Errorf("step %d: repeated: %v", n, err)
		}
		if list, _, _ := r.Log(again, 0, 10); len(list) != 3 {
			t.Errorf("step %d: %d commits, want 3", n, len(list))
		}
		if left, _ := os.ReadDir(s.disk.tmp); len(left) != 0 {
			t.Errorf("step %d: %d unfinished files stayed", n, len(left))
		}
		s.Close()
	}
	t.Logf("%d steps", steps)
}

// TestKilled kills a process that commits, at seeded steps of the file system,
// and looks at what the next process finds: every commit that was reported, and
// nothing half done. THOXBUILD_FAULT_RUNS sets how many are killed.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: starts many processes")
	}
	runs := 30
	if n, err := strconv.Atoi(os.Getenv("THOXBUILD_FAULT_RUNS")); err == nil {
		runs = n
	}
	rng := rand.New(rand.NewPCG(1, 2))
	dir, last := t.TempDir(), -2
	killed := 0
	for i := range runs {
		if i%10 == 0 {
			dir, last = t.TempDir(), -2
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledChild$")
		cmd.Env = append(os.Environ(), "THOXBUILD_TEST_CHILD="+dir, "THOXBUILD_TEST_STEP="+strconv.Itoa(1+rng.IntN(400)))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		sc := bufio.NewScanner(out)
		for sc.Scan() {
			if n, ok := strings.CutPrefix(sc.Text(), "committed "); ok {
				last, _ = strconv.Atoi(n)
			}
		}
		if err := cmd.Wait(); err != nil {
			killed++
		}
		s, err := Open(dir)
		if err != nil {
			t.Fatalf("run %d: %v", i, err)
		}
		got := checkGeneration(t, s)
		if got < last {
			t.Fatalf("run %d: generation %d, but %d was reported as committed", i, got, last)
		}
		if _, err := s.GC(t.Context(), GCOptions{Grace: -1}); err != nil {
			t.Fatalf("run %d: gc: %v", i, err)
		}
		if after := checkGeneration(t, s); after != got {
			t.Fatalf("run %d: gc took generation %d to %d", i, got, after)
		}
		last = got
		s.Close()
	}
	if killed < runs/2 {
		t.Errorf("only %d of %d processes were killed", killed, runs)
	}
	t.Logf("%d runs, %d killed", runs, killed)
}

// TestKilledChild is the process that TestKilled kills.
func TestKilledChild(t *testing.T) {
	dir := os.Getenv("THOXBUILD_TEST_CHILD")
	if dir == "" {
		t.Skip("started by TestKilled")
	}
	left, err := strconv.Atoi(os.Getenv("THOXBUILD_TEST_STEP"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, Options{Fault: func(op, path string) error {
		if left--; left == 0 {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Repo(Kernel, "thox-ai/k")
	if errors.Is(err, ErrRepoNotFound) {
		r = create(t, s)
	} else if err != nil {
		t.Fatal(err)
	}
	next := max(checkGeneration(t, s), -1) + 1
	for i := next; i < next+6; i++ {
		mustPut(t, r, "", fmt.Sprint(i), content(i))
		fmt.Println("committed", i)
		if i == next+3 {
			if _, err := s.GC(t.Context(), GCOptions{Grace: -1}); err != nil {
				t.Fatal(err)
			}
		}
	}
}
