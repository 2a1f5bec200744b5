package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	longrunning "cloud.google.com/go/longrunning/autogen/longrunningpb"
	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// client is one connection to a cluster.
type client struct {
	config Config
	conn   *grpc.ClientConn

	caps  repb.CapabilitiesClient
	cas   repb.ContentAddressableStorageClient
	cache repb.ActionCacheClient
	exec  repb.ExecutionClient
	bytes bytestream.ByteStreamClient
	ops   longrunning.OperationsClient

	meet   sync.Mutex
	met    bool
	metErr error
	batch  int64 // how many bytes of blobs a message may hold
	// writable says that clients may write to the action cache.
	writable bool

	sent sent
}

// maxMessage is how large a message may be that is received. Servers hold
// themselves to 4 MB by custom; one that offers larger batches may use them.
const maxMessage = 64 << 20

// maxBatch bounds what is put into one message, whatever the server allows,
// and room is what a message holds beside the blobs: digests, tags, names.
const (
	maxBatch     = 4 << 20
	room         = 64 << 10
	defaultBatch = 4<<20 - room
)

// newClient prepares a connection; nothing is sent before the first call.
func newClient(c Config) (*client, error) {
	t, err := parseURL(c.URL)
	if err != nil {
		return nil, err
	}
	creds, err := c.credentials(t)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(t.grpc,
		grpc.WithTransportCredentials(creds),
		grpc.WithUserAgent("thoxbuild"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), // retries are ours: they know what may be sent twice
		// An action that runs for an hour says nothing meanwhile. Five minutes is
		// the most often that servers allow unless they are told otherwise.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 5 * time.Minute, Timeout: 30 * time.Second}),
	)
	if err != nil {
		return nil, &ConfigError{fmt.Errorf("%s: %w", c.URL, err), urlForms}
	}
	return &client{
		config: c, conn: conn, batch: defaultBatch,
		caps: repb.NewCapabilitiesClient(conn), cas: repb.NewContentAddressableStorageClient(conn),
		cache: repb.NewActionCacheClient(conn), exec: repb.NewExecutionClient(conn),
		bytes: bytestream.NewByteStreamClient(conn), ops: longrunning.NewOperationsClient(conn),
		sent: sent{known: map[action.Digest]*flight{}},
	}, nil
}

// with adds what goes with every call.
func (c *client) with(ctx context.Context) context.Context {
	for k, v := range c.config.Headers {
		ctx = metadata.AppendToOutgoingContext(ctx, strings.ToLower(k), v)
	}
	return ctx
}

// Error is what a cluster, or the way to it, made impossible.
type Error struct {
	URL  string // without secrets
	Op   string // what was tried
	Err  error
	hint string
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s: %v", e.URL, e.Op, e.Err) }

// Unwrap gives the reason.
func (e *Error) Unwrap() error { return e.Err }

// UserHint is the one thing to do about it; it may be empty.
func (e *Error) UserHint() string { return e.hint }

// failure says what went wrong with a call. The end of ctx stays what it is.
func (c *client) failure(ctx context.Context, op string, err error) error {
	var done *Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &done):
		return err
	}
	e := &Error{URL: c.config.URL, Op: op, Err: c.plain(err)}
	switch status.Code(err) {
	case codes.Unavailable:
		e.hint = "see whether the server runs and the address is right; grpcs:// is for a server with TLS, grpc:// for one without"
	case codes.Unauthenticated, codes.PermissionDenied:
		e.hint = "pass credentials with --remote-header NAME=VARIABLE or --remote-cert; the server may also want --remote-instance"
	case codes.DeadlineExceeded:
		e.hint = "the server took too long to answer; see its load and log"
	case codes.ResourceExhausted:
		e.hint = "the server has no room; see its quota"
	}
	return e
}

// plain is an error of a call without grpc's wrapping and without the values of
// headers, which a server may repeat.
func (c *client) plain(err error) error {
	s, ok := status.FromError(err)
	if !ok {
		return err
	}
	text := s.Message()
	for _, v := range c.config.Headers {
		if v != "" {
			text = strings.ReplaceAll(text, v, "(secret)")
		}
	}
	return &callError{s.Code(), text}
}

// callError is a status that no longer holds a secret.
type callError struct {
	code codes.Code
	text string
}

func (e *callError) Error() string { return fmt.Sprintf("%s (%v)", e.text, e.code) }

// GRPCStatus lets status.Code see the code.
func (e *callError) GRPCStatus() *status.Status { return status.New(e.code, e.text) }

// hello asks once what the server can do, and refuses one that cannot serve.
func (c *client) hello(ctx context.Context) error {
	c.meet.Lock()
	defer c.meet.Unlock()
	if c.met {
		return c.metErr
	}
	var caps *repb.ServerCapabilities
	err := c.retryBy(ctx, backoff{few: true}, "ask for its capabilities", func(ctx context.Context) (err error) {
		caps, err = c.caps.GetCapabilities(ctx, &repb.GetCapabilitiesRequest{InstanceName: c.config.Instance})
		return err
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		err = c.use(caps)
	}
	c.met, c.metErr = true, err
	return err
}

// use takes over the server's limits, or says what it lacks.
func (c *client) use(caps *repb.ServerCapabilities) error {
	lacks := func(hint, format string, args ...any) error {
		return &Error{c.config.URL, "use it", fmt.Errorf(format, args...), hint}
	}
	if low, high := caps.GetLowApiVersion(), caps.GetHighApiVersion(); high != nil && high.Major < 2 || low != nil && low.Major > 2 {
		return lacks("another server is needed", "it speaks versions %d.%d to %d.%d of the Remote Execution API, expected 2", low.GetMajor(), low.GetMinor(), high.GetMajor(), high.GetMinor())
	}
	cas, exec := caps.GetCacheCapabilities(), caps.GetExecutionCapabilities()
	if cas == nil {
		return lacks("see whether --remote-instance is right", "it has no content-addressable storage")
	}
	if !slices.Contains(cas.DigestFunctions, repb.DigestFunction_SHA256) {
		return lacks("configure the server for SHA256", "its digest functions are %v, expected SHA256", cas.DigestFunctions)
	}
	c.writable = cas.GetActionCacheUpdateCapabilities().GetUpdateEnabled()
	if n := cas.MaxBatchTotalSizeBytes; n > 0 {
		if c.batch = min(n, maxBatch) - room; c.batch <= 0 {
			c.batch = n / 2
		}
	}
	if c.config.CacheOnly {
		return nil
	}
	if !exec.GetExecEnabled() {
		return lacks("give a server or an instance (--remote-instance) that executes, or run actions here with --remote-cache-only", "it does not execute actions here")
	}
	if f := exec.GetDigestFunction(); f != repb.DigestFunction_UNKNOWN && f != repb.DigestFunction_SHA256 && !slices.Contains(exec.GetDigestFunctions(), repb.DigestFunction_SHA256) {
		return lacks("configure the server for SHA256", "it executes actions with %v digests, expected SHA256", f)
	}
	return nil
}

// callTime is how long one attempt of a call may take that answers at once.
const callTime = 60 * time.Second

// retry makes a call until it succeeds, fails for good, or has failed often
// enough. The call gets a deadline of its own.
func (c *client) retry(ctx context.Context, op string, call func(context.Context) error) error {
	return c.retryBy(ctx, backoff{}, op, call)
}

func (c *client) retryBy(ctx context.Context, b backoff, op string, call func(context.Context) error) error {
	for {
		one, cancel := context.WithTimeout(c.with(ctx), callTime)
		err := call(one)
		cancel()
		if err == nil {
			return nil
		}
		if !b.again(ctx, err) {
			return c.failure(ctx, op, err)
		}
	}
}
