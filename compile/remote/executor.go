package remote

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// Where is what results and progress call a cluster.
const Where = "remote"

// Executor runs actions on a cluster, and those that can't leave this machine
// here.
type Executor struct {
	// Env is what commands get beside their own environment, with paths below
	// Scratch. It is part of the digest on the cluster.
	Env map[string]string
	// Trace, when set, is called with the command of each action that is sent,
	// in the form that runs here.
	Trace func(label, command string)

	local  action.Executor
	slots  chan struct{} // for actions that run here
	client *client
	tools  tools
	alone  atomic.Bool // the cache failed, and is left out
}

var _ action.Executor = (*Executor)(nil)

// New makes an executor. It reaches the cluster with the first action; until
// then only c is looked at. The local executor describes commands and runs what
// has to run here. Close the executor in the end.
func New(c Config, local action.Executor) (*Executor, error) {
	client, err := newClient(c)
	if err != nil {
		return nil, err
	}
	return &Executor{local: local, client: client, slots: make(chan struct{}, runtime.NumCPU())}, nil
}

// Close ends the connection.
func (e *Executor) Close() error { return e.client.conn.Close() }

// Describe implements action.Executor: the command as it runs on this machine,
// where a person can look into a failure.
func (e *Executor) Describe(s *action.Spec) string { return e.local.Describe(s) }

// Run implements action.Executor.
func (e *Executor) Run(ctx context.Context, req *action.Request, out action.Sink) (*action.Result, error) {
	if s := req.Spec.Platform["OSFamily"]; s != "" && s != "linux" {
		return e.here(ctx, req, out) // Xcode's compilers run on a Mac
	}
	if e.client.config.CacheOnly {
		return e.share(ctx, req, out)
	}
	res, err := e.there(ctx, req, out)
	var here *HereError
	if errors.As(err, &here) {
		return e.here(ctx, req, out)
	}
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return res, err
}

// here runs an action on this machine, beside no more others than it has
// processors: the number of jobs is meant for the cluster.
func (e *Executor) here(ctx context.Context, req *action.Request, out action.Sink) (*action.Result, error) {
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return e.local.Run(ctx, req, out)
}

// there takes an action's result from the action cache or has it run. The error
// is a HereError where the action can't leave this machine.
func (e *Executor) there(ctx context.Context, req *action.Request, out action.Sink) (*action.Result, error) {
	j, err := e.job(ctx, req)
	if err != nil {
		return nil, err
	}
	skip := req.NoCache
	if !skip {
		var res *action.Result
		var err error
		if res, skip, err = e.known(ctx, j, req, out); res != nil || err != nil {
			return res, err
		}
	}
	if e.Trace != nil {
		e.Trace(req.Spec.Label, e.Describe(req.Spec))
	}
	// Once each: what the cluster has lost is sent again, and an action whose
	// outputs it has lost is run again.
	sentAgain, ranAgain := false, false
	for {
		if err := e.send(ctx, j); err != nil {
			return nil, err
		}
		o := &operation{digest: j.digest, skip: skip, timeout: req.Timeout, started: func() {
			if req.Started != nil {
				req.Started(Where)
			}
		}}
		resp, err := e.client.execute(ctx, o)
		if errors.Is(err, errMissingInputs) && !sentAgain {
			sentAgain = true
			e.client.sent.forget()
			continue
		}
		switch {
		case errors.Is(err, errMissingInputs):
			return nil, &Error{e.client.config.URL, "execute the action", err, "it loses files as soon as they arrive; see its quota"}
		case errors.Is(err, errServerTime):
			return nil, fmt.Errorf("%w: %w", action.ErrTimeout, err)
		case err != nil:
			return nil, err
		}
		res, err := e.result(ctx, j, resp.Result, req.Spec, out)
		var lost *lostError
		if errors.As(err, &lost) && !ranAgain {
			ranAgain, skip = true, true
			continue
		}
		if errors.As(err, &lost) {
			return nil, &Error{e.client.config.URL, "fetch the outputs", err, "it loses files as soon as they are made; see its quota"}
		}
		if res != nil {
			res.Cached = resp.CachedResult && res.ExitCode == 0
		}
		return res, err
	}
}

// job meets the server and makes the job of a request. The error is a HereError
// for an action that can't leave this machine.
func (e *Executor) job(ctx context.Context, req *action.Request) (*job, error) {
	tools, err := e.toolNames(req.Spec)
	if err != nil {
		return nil, err
	}
	if err := e.client.hello(ctx); err != nil { // before the tools are read, which takes a second
		return nil, err
	}
	return e.prepare(ctx, req, tools)
}

// send makes sure that the cluster has everything that a job names.
func (e *Executor) send(ctx context.Context, j *job) error {
	for _, t := range j.tools {
		if err := e.client.upload(ctx, t.blobs); err != nil {
			return err
		}
	}
	return e.client.upload(ctx, j.blobs)
}

// known is the result in the cluster's action cache. Where there is none, res is
// nil; useless says that there is one which can't be used, because the action
// failed, or its outputs are not all there.
func (e *Executor) known(ctx context.Context, j *job, req *action.Request, out action.Sink) (res *action.Result, useless bool, err error) {
	var msg *repb.ActionResult
	err = e.client.retry(ctx, "ask for a result", func(ctx context.Context) (err error) {
		msg, err = e.client.cache.GetActionResult(ctx, &repb.GetActionResultRequest{
			InstanceName: e.client.config.Instance, ActionDigest: j.digest.Proto(), InlineStdout: true, InlineStderr: true,
		})
		return err
	})
	switch code := status.Code(err); {
	case code == codes.NotFound || code == codes.Unimplemented:
		return nil, false, ctx.Err()
	case err != nil:
		return nil, false, err
	case msg.ExitCode != 0:
		return nil, true, nil
	}
	res, err = e.result(ctx, j, msg, req.Spec, out)
	var lost *lostError
	var bad *badResult
	if errors.As(err, &lost) || errors.As(err, &bad) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	res.Cached = true
	return res, false, nil
}

// badResult is a result that an action can't have.
type badResult struct{ text string }

func (e *badResult) Error() string { return e.text }

// result takes over what an action did: its outputs go to out. Nothing is taken
// on trust: only the declared outputs count, each a regular file.
func (e *Executor) result(ctx context.Context, j *job, msg *repb.ActionResult, s *action.Spec, out action.Sink) (*action.Result, error) {
	if msg == nil {
		return nil, errors.New("the server sent no result")
	}
	res := &action.Result{ExitCode: int(msg.ExitCode), Where: Where, Wall: wall(msg.ExecutionMetadata)}
	var err error
	if res.Log, err = e.log(ctx, j, msg); err != nil {
		return nil, err
	}
	if res.ExitCode != 0 {
		return res, nil
	}
	files := map[string]*repb.OutputFile{}
	for _, f := range msg.OutputFiles {
		files[f.Path] = f
	}
	other := map[string]string{}
	for _, d := range msg.OutputDirectories {
		other[d.Path] = "folder"
	}
	for _, l := range msg.OutputSymlinks {
		other[l.Path] = "link"
	}
	var fetch []action.Digest
	for _, o := range s.Outputs {
		f := files[o]
		if f == nil {
			if kind := other[o]; kind != "" {
				return nil, &badResult{fmt.Sprintf("output %s: expected a regular file, found a %s", o, kind)}
			}
			return nil, &badResult{fmt.Sprintf("output %s: the command succeeded and did not write it", o)}
		}
		d, err := action.FromProto(f.Digest)
		if err != nil {
			return nil, &badResult{fmt.Sprintf("output %s: %v", o, err)}
		}
		res.Outputs = append(res.Outputs, action.Output{Path: o, Digest: d, Exec: f.IsExecutable})
		fetch = append(fetch, d)
	}
	return res, e.client.fetch(ctx, fetch, out)
}

// wall is how long the command ran.
func wall(m *repb.ExecutedActionMetadata) time.Duration {
	if d := m.GetVirtualExecutionDuration(); d != nil && d.CheckValid() == nil && d.AsDuration() > 0 {
		return d.AsDuration()
	}
	start, end := m.GetExecutionStartTimestamp(), m.GetExecutionCompletedTimestamp()
	if start.CheckValid() != nil || end.CheckValid() != nil {
		return 0
	}
	return max(0, end.AsTime().Sub(start.AsTime()))
}

// log is what the command printed, its standard output first: the protocol keeps
// the two apart.
func (e *Executor) log(ctx context.Context, j *job, msg *repb.ActionResult) ([]byte, error) {
	var all []byte
	var left int64
	for _, part := range []struct {
		raw    []byte
		digest *repb.Digest
	}{{msg.StdoutRaw, msg.StdoutDigest}, {msg.StderrRaw, msg.StderrDigest}} {
		budget := int64(action.LogLimit - len(all))
		if n := int64(len(part.raw)); n > 0 {
			all = append(all, part.raw[:min(n, budget)]...)
			left += max(0, n-budget)
			continue
		}
		if part.digest == nil || part.digest.SizeBytes == 0 {
			continue
		}
		d, err := action.FromProto(part.digest)
		if err != nil {
			return nil, &badResult{fmt.Sprintf("what the command printed: %v", err)}
		}
		b, more, err := e.client.text(ctx, d, budget)
		if err != nil {
			if status.Code(err) == codes.NotFound {
				err = &lostError{d}
			}
			return nil, err
		}
		all, left = append(all, b...), left+more
	}
	if len(all) == 0 {
		return nil, nil
	}
	text := toHere(string(all), j.tools)
	if left > 0 {
		text += action.LeftOut(left)
	}
	return []byte(text), nil
}

// toHere replaces the places of tools on a worker by those here, which a person
// can open. A program names itself as it was called, or by where the worker has
// its input tree.
func toHere(text string, tools []*tool) string {
	for _, t := range tools {
		if !strings.Contains(text, toolsDir+"/"+t.name+"/") {
			continue
		}
		place := regexp.MustCompile(`(?:\.\./|/(?:[\w.+-]+/)*)` + regexp.QuoteMeta(toolsDir+"/"+t.name+"/"))
		text = place.ReplaceAllLiteralString(text, t.dir+"/")
	}
	return text
}
