// Package local runs actions on this machine: each in a private folder that
// holds its declared inputs and nothing else, with only the environment it
// asked for, in a process group of its own.
//
// The folder is what makes a build hermetic in practice: a header that the
// manifest does not list is not there to be included. It is no sandbox
// against hostile code; a compiler can still open absolute paths.
package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// Executor runs actions in folders below Scratch.
type Executor struct {
	// Scratch is where the private folders are made. On the file system of
	// the cache, inputs are linked instead of copied.
	Scratch string
	// Resolve turns a virtual tool path into the real one, and leaves other
	// text alone. It sees every argument and environment value. Nil changes
	// nothing.
	Resolve func(string) string
	// LocalEnv gives what the tools of those fingerprints (the action's
	// platform) need in their environment on this machine alone, such as cache
	// folders. It may be nil.
	LocalEnv func(fingerprints map[string]string) map[string]string
	// Trace, when set, is called with the pasteable command of each action
	// before it runs.
	Trace func(label, command string)
	// Keep leaves the folder of a failed action where it is, for debugging.
	Keep bool

	seq atomic.Int64
}

var _ action.Executor = (*Executor)(nil)

// Run implements action.Executor.
func (e *Executor) Run(ctx context.Context, req *action.Request, out action.Sink) (res *action.Result, err error) {
	dir := filepath.Join(e.Scratch, fmt.Sprintf("x%d", e.seq.Add(1)))
	root := filepath.Join(dir, "root")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, err
	}
	defer func() {
		if !e.Keep || (err == nil && res.ExitCode == 0) {
			os.RemoveAll(dir)
		}
	}()
	if err := stage(root, req); err != nil {
		return nil, fmt.Errorf("%s: %w", req.Spec.Label, err)
	}
	if e.Trace != nil {
		e.Trace(req.Spec.Label, e.Describe(req.Spec))
	}
	if req.Started != nil {
		req.Started("")
	}
	res, err = e.command(ctx, req, dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", req.Spec.Label, err)
	}
	if res.ExitCode != 0 {
		return res, nil
	}
	for _, o := range req.Spec.Outputs {
		got, err := collect(ctx, filepath.Join(root, filepath.FromSlash(o)), out)
		if err != nil {
			return nil, fmt.Errorf("%s: output %s: %w", req.Spec.Label, o, err)
		}
		got.Path = o
		res.Outputs = append(res.Outputs, got)
	}
	return res, nil
}

// command runs the process and waits for its whole group to end.
func (e *Executor) command(ctx context.Context, req *action.Request, dir string) (*action.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if req.Timeout > 0 {
		t := time.AfterFunc(req.Timeout, func() { cancel(action.ErrTimeout) })
		defer t.Stop()
	}
	argv := e.resolveAll(req.Spec.Args)
	tmp := filepath.Join(dir, "tmp")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return nil, err
	}
	log := &limited{max: action.LogLimit}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = filepath.Join(dir, "root")
	// What has to be somewhere on this machine but must not be in the key.
	cmd.Env = []string{"HOME=" + tmp, "TMPDIR=" + tmp}
	if e.LocalEnv != nil {
		for k, v := range e.LocalEnv(req.Spec.Platform) {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
	}
	for k, v := range req.Spec.Env {
		cmd.Env = append(cmd.Env, k+"="+e.resolve(v))
	}
	cmd.Stdout, cmd.Stderr = log, log
	ru, err := runGroup(ctx, cmd)
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		if cause := context.Cause(ctx); errors.Is(cause, action.ErrTimeout) {
			return nil, fmt.Errorf("%w after %v", action.ErrTimeout, req.Timeout)
		}
		return nil, ctx.Err()
	case errors.As(err, &exit):
	case err != nil:
		return nil, fmt.Errorf("start %s: %w", req.Spec.Args[0], err)
	}
	return &action.Result{
		ExitCode: exitCode(cmd.ProcessState),
		Log:      e.tidy(log.Bytes(), cmd.Dir),
		Wall:     ru.wall, CPU: ru.cpu, MaxRSS: ru.maxRSS,
	}, nil
}

// exitCode follows the shell: 128 and the signal's number for a process that
// a signal ended.
func exitCode(ps *os.ProcessState) int {
	if ws, ok := ps.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ps.ExitCode()
}

// tidy takes this machine's folders out of what a tool printed.
func (e *Executor) tidy(b []byte, root string) []byte {
	if len(b) == 0 {
		return nil
	}
	return []byte(strings.ReplaceAll(string(b), root+"/", ""))
}

func (e *Executor) resolve(s string) string {
	if e.Resolve == nil {
		return s
	}
	return action.MapPaths(s, e.Resolve)
}

func (e *Executor) resolveAll(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = e.resolve(a)
	}
	return out
}

// collect stores one output. Only a regular file counts: a link could name
// anything on this machine.
func collect(ctx context.Context, path string, out action.Sink) (action.Output, error) {
	fi, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return action.Output{}, errors.New("the command succeeded and did not write it")
	}
	if err != nil {
		return action.Output{}, err
	}
	if !fi.Mode().IsRegular() {
		return action.Output{}, fmt.Errorf("expected a regular file, found %v", fi.Mode().Type())
	}
	d, err := out.PutFile(ctx, path)
	return action.Output{Digest: d, Exec: fi.Mode()&0o111 != 0}, err
}

// limited keeps the first max bytes and counts the rest.
type limited struct {
	buf  []byte
	max  int
	lost int64
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.max-len(l.buf))
	l.buf = append(l.buf, p[:n]...)
	l.lost += int64(len(p) - n)
	return len(p), nil
}

func (l *limited) Bytes() []byte {
	if l.lost == 0 {
		return l.buf
	}
	return append(l.buf, action.LeftOut(l.lost)...)
}

var _ io.Writer = (*limited)(nil)
