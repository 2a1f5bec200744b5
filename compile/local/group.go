package local

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// usage is what a finished command took.
type usage struct {
	wall, cpu time.Duration
	maxRSS    int64 // bytes
}

// grace is how long a process group has between the polite and the final
// signal.
const grace = 2 * time.Second

// runGroup runs cmd as the leader of a new process group. When ctx ends the
// group is told to stop and, after the grace, killed. However cmd ends, what
// is left of its group is killed before runGroup returns: a compiler's child
// that lives on could still write into the folder.
func runGroup(ctx context.Context, cmd *exec.Cmd) (usage, error) {
	// Pdeathsig ends the leader when we are killed ourselves, kill -9 included.
	cmd.SysProcAttr = sysProcAttr()
	// Wait returns when the leader ends, even if a child holds the output open.
	cmd.WaitDelay = grace
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return usage{}, err
	}
	pgid := cmd.Process.Pid
	done := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		unix.Kill(-pgid, unix.SIGTERM)
		select {
		case <-done:
		case <-time.After(grace):
			unix.Kill(-pgid, unix.SIGKILL)
		}
	}()
	err := cmd.Wait()
	close(done)
	<-stopped
	unix.Kill(-pgid, unix.SIGKILL)
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // the leader succeeded; its left-over child was just killed
	}
	u := usage{wall: time.Since(start)}
	if ps := cmd.ProcessState; ps != nil {
		u.cpu = ps.UserTime() + ps.SystemTime()
		if ru, ok := ps.SysUsage().(*syscall.Rusage); ok {
			u.maxRSS = maxRSSBytes(ru)
		}
	}
	return u, err
}
