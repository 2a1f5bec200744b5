package remote

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// share takes an action's result from the cluster's action cache, or runs the
// action here and writes the result there, under the digest that the action has
// where the cluster runs it. A cache is no reason to fail: when it does, the
// build says so once and goes on without.
func (e *Executor) share(ctx context.Context, req *action.Request, out action.Sink) (*action.Result, error) {
	var j *job
	if !e.alone.Load() {
		var err error
		var res *action.Result
		if j, err = e.job(ctx, req); err == nil && !req.NoCache {
			res, _, err = e.known(ctx, j, req, out)
		}
		if res != nil {
			return res, nil
		}
		if err != nil {
			j = nil
			e.leave(ctx, err)
		}
	}
	res, err := e.local.Run(ctx, req, out)
	if err != nil || res.ExitCode != 0 || j == nil || !e.client.writable {
		return res, err
	}
	if err := e.record(ctx, j, req, res); err != nil {
		e.leave(ctx, err)
	}
	return res, nil
}

// leave goes on without the cluster; an action that can't be shared says nothing
// about the others.
func (e *Executor) leave(ctx context.Context, err error) {
	var here *HereError
	if errors.As(err, &here) || ctx.Err() != nil {
		return
	}
	if !e.alone.Swap(true) && e.client.config.Log != nil {
		e.client.config.Log("going on without the cluster's cache: %v", err)
	}
}

// maxInlineLog is how much of what a command printed goes into the result
// itself.
const maxInlineLog = 64 << 10

// record sends the outputs of an action that ran here, then the result: what a
// result names has to be there.
func (e *Executor) record(ctx context.Context, j *job, req *action.Request, res *action.Result) error {
	msg := &repb.ActionResult{ExecutionMetadata: &repb.ExecutedActionMetadata{VirtualExecutionDuration: durationpb.New(res.Wall)}}
	var blobs []blob
	for _, o := range res.Outputs {
		msg.OutputFiles = append(msg.OutputFiles, &repb.OutputFile{Path: o.Path, Digest: o.Digest.Proto(), IsExecutable: o.Exec})
		blobs = append(blobs, blob{o.Digest, func() (io.ReadCloser, error) { return req.Open(o.Digest) }})
	}
	slices.SortFunc(msg.OutputFiles, func(a, b *repb.OutputFile) int { return cmp.Compare(a.Path, b.Path) })
	log := e.fromHere(string(res.Log), j.tools)
	if len(log) <= maxInlineLog {
		msg.StdoutRaw = []byte(log)
	} else {
		b := bytesBlob([]byte(log))
		blobs = append(blobs, b)
		msg.StdoutDigest = b.digest.Proto()
	}
	if err := e.client.upload(ctx, blobs); err != nil {
		return err
	}
	return e.client.retry(ctx, "write a result", func(ctx context.Context) error {
		_, err := e.client.cache.UpdateActionResult(ctx, &repb.UpdateActionResultRequest{
			InstanceName: e.client.config.Instance, ActionDigest: j.digest.Proto(), ActionResult: msg,
		})
		return err
	})
}

// fromHere takes the places of this machine's tools out of a text that others
// will read.
func (e *Executor) fromHere(text string, tools []*tool) string {
	for _, t := range tools {
		there := "../" + toolsDir + "/" + t.name + "/"
		if dir, _, err := e.client.config.Tools(t.name); err == nil {
			text = strings.ReplaceAll(text, dir+"/", there)
		}
		text = strings.ReplaceAll(text, t.dir+"/", there)
	}
	return text
}
