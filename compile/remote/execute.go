package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	longrunning "cloud.google.com/go/longrunning/autogen/longrunningpb"
	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// errMissingInputs is an action whose inputs the cluster has lost.
var errMissingInputs = errors.New("the server has lost inputs of the action")

// errServerTime is an action that ran longer than the server allows.
var errServerTime = errors.New("the server ended the action, which ran longer than it allows")

// operation is one action on its way through the cluster.
type operation struct {
	c       *client
	digest  action.Digest
	skip    bool // take no result from the action cache
	started func()
	timeout time.Duration
	expire  func() // ends the action after timeout

	mu    sync.Mutex
	name  string             // of the operation, once known
	drop  context.CancelFunc // ends the stream that is open
	timer *time.Timer
}

// execute runs an action until it has a result. A stream that breaks is taken
// up again with WaitExecution; an operation that the server no longer knows, as
// after the end of its worker, is started again. When ctx ends the operation is
// cancelled, for a dropped stream does not stop it.
func (c *client) execute(ctx context.Context, o *operation) (*repb.ExecuteResponse, error) {
	const op = "execute the action"
	o.c = c
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o.expire = func() { cancel(action.ErrTimeout) }
	defer o.stopTimer()
	defer context.AfterFunc(ctx, o.interrupted)()
	var pause backoff
	for {
		resp, moved, err := o.follow(ctx)
		if moved {
			pause.progress()
		}
		if err == nil && resp != nil {
			if err = statusError(resp.Status); err == nil {
				return resp, nil
			}
			err = judge(err)
			o.lost() // whatever comes next, this operation is over
		}
		switch {
		case ctx.Err() != nil:
			o.cancel(context.WithoutCancel(ctx))
			if errors.Is(context.Cause(ctx), action.ErrTimeout) {
				return nil, fmt.Errorf("%w after %v", action.ErrTimeout, o.timeout)
			}
			return nil, ctx.Err()
		case errors.Is(err, errMissingInputs), errors.Is(err, errServerTime):
			return nil, err
		case status.Code(err) == codes.NotFound && o.lost():
			err = status.Error(codes.Unavailable, "the operation was lost: "+status.Convert(err).Message())
		case status.Code(err) == codes.NotFound:
			// What some servers say of an action that they do not have.
			return nil, fmt.Errorf("%w: %w", errMissingInputs, c.plain(err))
		}
		if !pause.again(ctx, err) && ctx.Err() == nil {
			return nil, c.failure(ctx, op, err)
		}
	}
}

// lost forgets the operation, and reports whether there was one.
func (o *operation) lost() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.name != ""
	o.name = ""
	return was
}

// follow opens a stream and reads it to its end. moved says that the server has
// told something new.
func (o *operation) follow(ctx context.Context) (resp *repb.ExecuteResponse, moved bool, err error) {
	// The stream outlives ctx for a moment where the operation has no name yet.
	streamCtx, drop := context.WithCancel(context.WithoutCancel(ctx))
	defer drop()
	o.mu.Lock()
	name := o.name
	o.drop = drop
	o.mu.Unlock()
	if ctx.Err() != nil {
		return nil, false, ctx.Err()
	}
	var stream interface {
		Recv() (*longrunning.Operation, error)
	}
	if name == "" {
		stream, err = o.c.exec.Execute(o.c.with(streamCtx), &repb.ExecuteRequest{
			InstanceName: o.c.config.Instance, ActionDigest: o.digest.Proto(), SkipCacheLookup: o.skip,
		})
	} else {
		stream, err = o.c.exec.WaitExecution(o.c.with(streamCtx), &repb.WaitExecutionRequest{Name: name})
	}
	if err != nil {
		return nil, false, err
	}
	stage := repb.ExecutionStage_UNKNOWN
	for {
		op, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			err = status.Error(codes.Unavailable, "the server ended the stream before the action was done")
		}
		if err != nil {
			return nil, moved, missingInputs(err)
		}
		o.named(op.Name)
		if ctx.Err() != nil {
			return nil, moved, ctx.Err()
		}
		var meta repb.ExecuteOperationMetadata
		if op.Metadata.MessageIs(&meta) && op.Metadata.UnmarshalTo(&meta) == nil {
			if meta.Stage != stage {
				moved = true
			}
			stage = meta.Stage
		}
		if !op.Done {
			// A server that does not tell the stages is taken to run it.
			if stage == repb.ExecutionStage_EXECUTING || stage == repb.ExecutionStage_UNKNOWN {
				o.begin()
			}
			continue
		}
		if e := op.GetError(); e != nil {
			o.lost()
			return nil, moved, judge(statusError(e))
		}
		resp := &repb.ExecuteResponse{}
		if err := op.GetResponse().UnmarshalTo(resp); err != nil {
			return nil, moved, fmt.Errorf("the operation has an answer of another kind: %w", err)
		}
		return resp, true, nil
	}
}

// begin notes that the command runs. The time that a request allows counts from
// here, and not while the action waits for a worker.
func (o *operation) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.started != nil {
		o.started()
		o.started = nil
	}
	if o.timeout > 0 && o.timer == nil {
		o.timer = time.AfterFunc(o.timeout, o.expire)
	}
}

func (o *operation) stopTimer() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer != nil {
		o.timer.Stop()
	}
}

func (o *operation) named(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if name != "" {
		o.name = name
	}
}

// cancelTime is how long a cancelled build waits for the server, once for the
// name of an operation that has just begun and once for the cancelling.
const cancelTime = 3 * time.Second

// interrupted ends the open stream, which may be silent for hours: at once, or
// when the operation has had time to get a name.
func (o *operation) interrupted() {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.drop == nil:
	case o.name != "":
		o.drop()
	default:
		time.AfterFunc(cancelTime, o.drop)
	}
}

// cancel tells the server to stop the command. That it fails helps nobody: the
// person has gone, and the server ends the action by its own limit.
func (o *operation) cancel(ctx context.Context) {
	o.mu.Lock()
	name := o.name
	o.mu.Unlock()
	if name == "" {
		return
	}
	ctx, done := context.WithTimeout(o.c.with(ctx), cancelTime)
	defer done()
	o.c.ops.CancelOperation(ctx, &longrunning.CancelOperationRequest{Name: name})
}

// judge tells the ends of an execution that have an answer of their own from
// those that have not.
func judge(err error) error {
	if status.Code(err) == codes.DeadlineExceeded {
		return errServerTime
	}
	return missingInputs(err)
}

// missingInputs returns errMissingInputs for a status that lists blobs which the
// server lacks, and any other error as it is.
func missingInputs(err error) error {
	s, ok := status.FromError(err)
	if !ok || s.Code() != codes.FailedPrecondition {
		return err
	}
	for _, d := range s.Details() {
		p, ok := d.(*errdetails.PreconditionFailure)
		if !ok {
			continue
		}
		for _, v := range p.Violations {
			if v.Type == "MISSING" {
				return errMissingInputs
			}
		}
	}
	return err
}
