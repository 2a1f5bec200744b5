package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	longrunning "cloud.google.com/go/longrunning/autogen/longrunningpb"
	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"github.com/bazelbuild/remote-apis/build/bazel/semver"
	"google.golang.org/genproto/googleapis/bytestream"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// server is a Remote Execution server in this process that does what it is told
// to do wrong. It runs commands without a sandbox.
type server struct {
	repb.UnimplementedActionCacheServer
	repb.UnimplementedContentAddressableStorageServer
	bytestream.UnimplementedByteStreamServer
	longrunning.UnimplementedOperationsServer

	dir  string
	caps *repb.ServerCapabilities

	mu        sync.Mutex
	blobs     map[string][]byte // by digest as it is written
	results   map[string]*repb.ActionResult
	uploads   map[string][]byte
	ops       map[string]*runningOp
	calls     map[string]int
	cancelled []string
	headers   metadata.MD // of the last call
	in, out   int64       // bytes of streams
	asked     int         // digests that FindMissingBlobs was asked about
	offsets   []int64     // of Read

	// What goes wrong. They are called with mu held and may be nil.
	fail       func(method string) error // before a call
	readCut    func() int                // after how many bytes a Read is cut, 0 for never
	writeCut   func() int
	corrupt    func(digest string) bool // other bytes are sent
	lose       func(digest string) bool // said to be there, and is not when it is needed
	noResume   bool                     // QueryWriteStatus is not known
	cutExecute func() bool              // the stream ends after its first message
	forgetOp   func() bool              // WaitExecution knows nothing
	answer     func() *repb.ExecuteResponse
	hang       bool // commands never end
}

type runningOp struct {
	done     chan struct{}
	response *repb.ExecuteResponse
	stop     context.CancelFunc
}

// newServer starts a server and returns it with its address.
func newServer(t *testing.T, conf *tls.Config) (*server, string) {
	t.Helper()
	s := &server{
		dir: t.TempDir(), blobs: map[string][]byte{}, results: map[string]*repb.ActionResult{}, uploads: map[string][]byte{},
		ops: map[string]*runningOp{}, calls: map[string]int{},
		caps: &repb.ServerCapabilities{
			LowApiVersion: &semver.SemVer{Major: 2}, HighApiVersion: &semver.SemVer{Major: 2, Minor: 3},
			CacheCapabilities: &repb.CacheCapabilities{
				DigestFunctions: []repb.DigestFunction_Value{repb.DigestFunction_SHA256}, MaxBatchTotalSizeBytes: 1 << 20,
			},
			ExecutionCapabilities: &repb.ExecutionCapabilities{DigestFunction: repb.DigestFunction_SHA256, ExecEnabled: true},
		},
	}
	opts := []grpc.ServerOption{
		grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			if err := s.enter(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return h(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, h grpc.StreamHandler) error {
			if err := s.enter(stream.Context(), info.FullMethod); err != nil {
				return err
			}
			return h(srv, stream)
		}),
	}
	scheme := "grpc://"
	if conf != nil {
		scheme, opts = "grpcs://", append(opts, grpc.Creds(credentials.NewTLS(conf)))
	}
	g := grpc.NewServer(opts...)
	repb.RegisterCapabilitiesServer(g, capabilities{s: s})
	repb.RegisterActionCacheServer(g, s)
	repb.RegisterContentAddressableStorageServer(g, s)
	repb.RegisterExecutionServer(g, execution{s: s})
	bytestream.RegisterByteStreamServer(g, s)
	longrunning.RegisterOperationsServer(g, s)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go g.Serve(l)
	t.Cleanup(g.Stop)
	return s, scheme + l.Addr().String()
}

func (s *server) enter(ctx context.Context, method string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	method = method[strings.LastIndexByte(method, '/')+1:]
	s.calls[method]++
	s.headers, _ = metadata.FromIncomingContext(ctx)
	if s.fail != nil {
		return s.fail(method)
	}
	return nil
}

func key(d *repb.Digest) string { return fmt.Sprintf("%s/%d", d.Hash, d.SizeBytes) }

func (s *server) put(b []byte) *repb.Digest {
	d := action.DigestOf(b).Proto()
	s.blobs[key(d)] = bytes.Clone(b)
	return d
}

// get is a blob as it is sent, damaged or not.
func (s *server) get(k string) ([]byte, bool) {
	b, ok := s.blobs[k]
	if ok && s.corrupt != nil && s.corrupt(k) && len(b) > 0 {
		b = bytes.Clone(b)
		b[len(b)/2] ^= 1
	}
	return b, ok
}

type capabilities struct {
	repb.UnimplementedCapabilitiesServer
	s *server
}

func (c capabilities) GetCapabilities(context.Context, *repb.GetCapabilitiesRequest) (*repb.ServerCapabilities, error) {
	return c.s.caps, nil
}

func (s *server) GetActionResult(_ context.Context, r *repb.GetActionResultRequest) (*repb.ActionResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if res := s.results[key(r.ActionDigest)]; res != nil {
		return res, nil
	}
	return nil, status.Error(codes.NotFound, "no result")
}

func (s *server) UpdateActionResult(_ context.Context, r *repb.UpdateActionResultRequest) (*repb.ActionResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range r.ActionResult.OutputFiles {
		if _, ok := s.blobs[key(f.Digest)]; !ok {
			return nil, status.Error(codes.InvalidArgument, "an output is missing")
		}
	}
	s.results[key(r.ActionDigest)] = r.ActionResult
	return r.ActionResult, nil
}

func (s *server) FindMissingBlobs(_ context.Context, r *repb.FindMissingBlobsRequest) (*repb.FindMissingBlobsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &repb.FindMissingBlobsResponse{}
	s.asked += len(r.BlobDigests)
	for _, d := range r.BlobDigests {
		if _, ok := s.blobs[key(d)]; !ok {
			resp.MissingBlobDigests = append(resp.MissingBlobDigests, d)
		}
	}
	return resp, nil
}

func (s *server) BatchUpdateBlobs(_ context.Context, r *repb.BatchUpdateBlobsRequest) (*repb.BatchUpdateBlobsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &repb.BatchUpdateBlobsResponse{}
	total := 0
	for _, one := range r.Requests {
		total += len(one.Data)
		st := status.New(codes.OK, "")
		if d := action.DigestOf(one.Data).Proto(); !proto.Equal(d, one.Digest) {
			st = status.New(codes.InvalidArgument, "wrong digest")
		} else {
			s.put(one.Data)
		}
		resp.Responses = append(resp.Responses, &repb.BatchUpdateBlobsResponse_Response{Digest: one.Digest, Status: st.Proto()})
	}
	s.in += int64(total)
	if int64(total) > s.caps.CacheCapabilities.MaxBatchTotalSizeBytes {
		return nil, status.Error(codes.InvalidArgument, "the batch is too large")
	}
	return resp, nil
}

func (s *server) BatchReadBlobs(_ context.Context, r *repb.BatchReadBlobsRequest) (*repb.BatchReadBlobsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &repb.BatchReadBlobsResponse{}
	for _, d := range r.Digests {
		one := &repb.BatchReadBlobsResponse_Response{Digest: d}
		if b, ok := s.get(key(d)); ok {
			one.Data = b
		} else {
			one.Status = status.New(codes.NotFound, "no blob").Proto()
		}
		resp.Responses = append(resp.Responses, one)
	}
	return resp, nil
}

// blobOf is the digest at the end of a resource name.
func blobOf(name string) string {
	parts := strings.Split(name, "/")
	return strings.Join(parts[len(parts)-2:], "/")
}

func (s *server) Read(r *bytestream.ReadRequest, stream bytestream.ByteStream_ReadServer) error {
	s.mu.Lock()
	b, ok := s.get(blobOf(r.ResourceName))
	cut := 0
	if s.readCut != nil {
		cut = s.readCut()
	}
	s.offsets = append(s.offsets, r.ReadOffset)
	s.mu.Unlock()
	if !ok {
		return status.Error(codes.NotFound, "no blob")
	}
	for b = b[r.ReadOffset:]; len(b) > 0; {
		n := min(len(b), 64<<10)
		if err := stream.Send(&bytestream.ReadResponse{Data: b[:n]}); err != nil {
			return err
		}
		s.mu.Lock()
		s.out += int64(n)
		s.mu.Unlock()
		b = b[n:]
		if cut > 0 && len(b) > 0 {
			if cut -= n; cut <= 0 {
				return status.Error(codes.Unavailable, "cut")
			}
		}
	}
	return nil
}

func (s *server) Write(stream bytestream.ByteStream_WriteServer) error {
	s.mu.Lock()
	cut := 0
	if s.writeCut != nil {
		cut = s.writeCut()
	}
	s.mu.Unlock()
	name := ""
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		if name == "" {
			name = r.ResourceName
		}
		s.mu.Lock()
		s.in += int64(len(r.Data))
		have := s.uploads[name]
		if r.WriteOffset != int64(len(have)) {
			s.mu.Unlock()
			return status.Errorf(codes.InvalidArgument, "offset %d, expected %d", r.WriteOffset, len(have))
		}
		have = append(have, r.Data...)
		s.uploads[name] = have
		if r.FinishWrite {
			defer s.mu.Unlock()
			if key(action.DigestOf(have).Proto()) != blobOf(name) {
				return status.Error(codes.InvalidArgument, "wrong digest")
			}
			s.put(have)
			return stream.SendAndClose(&bytestream.WriteResponse{CommittedSize: int64(len(have))})
		}
		s.mu.Unlock()
		if cut > 0 {
			if cut -= len(r.Data); cut <= 0 {
				return status.Error(codes.Unavailable, "cut")
			}
		}
	}
}

func (s *server) QueryWriteStatus(_ context.Context, r *bytestream.QueryWriteStatusRequest) (*bytestream.QueryWriteStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noResume {
		return nil, status.Error(codes.Unimplemented, "not known")
	}
	b, ok := s.uploads[r.ResourceName]
	if !ok {
		return nil, status.Error(codes.NotFound, "no upload")
	}
	_, done := s.blobs[blobOf(r.ResourceName)]
	return &bytestream.QueryWriteStatusResponse{CommittedSize: int64(len(b)), Complete: done}, nil
}

func (s *server) CancelOperation(_ context.Context, r *longrunning.CancelOperationRequest) (*emptypb.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelled = append(s.cancelled, r.Name)
	if op := s.ops[r.Name]; op != nil {
		op.stop()
	}
	return &emptypb.Empty{}, nil
}

type execution struct {
	repb.UnimplementedExecutionServer
	s *server
}

func (e execution) Execute(r *repb.ExecuteRequest, stream repb.Execution_ExecuteServer) error {
	s := e.s
	s.mu.Lock()
	cached := s.results[key(r.ActionDigest)]
	s.mu.Unlock()
	if cached != nil && !r.SkipCacheLookup {
		return send(stream, "cached", &repb.ExecuteResponse{Result: cached, CachedResult: true})
	}
	ctx, stop := context.WithCancel(context.Background())
	op := &runningOp{done: make(chan struct{}), stop: stop}
	s.mu.Lock()
	name := fmt.Sprintf("op/%d", len(s.ops)+1)
	s.ops[name] = op
	s.mu.Unlock()
	go func() {
		defer close(op.done)
		op.response = s.run(ctx, r.ActionDigest)
	}()
	return e.follow(name, op, stream)
}

func (e execution) WaitExecution(r *repb.WaitExecutionRequest, stream repb.Execution_WaitExecutionServer) error {
	s := e.s
	s.mu.Lock()
	op := s.ops[r.Name]
	if s.forgetOp != nil && s.forgetOp() {
		op = nil
	}
	s.mu.Unlock()
	if op == nil {
		return status.Error(codes.NotFound, "The operation was not found")
	}
	return e.follow(r.Name, op, stream)
}

type operationStream interface {
	Send(*longrunning.Operation) error
	Context() context.Context
}

func (e execution) follow(name string, op *runningOp, stream operationStream) error {
	for _, stage := range []repb.ExecutionStage_Value{repb.ExecutionStage_QUEUED, repb.ExecutionStage_EXECUTING} {
		meta, err := anypb.New(&repb.ExecuteOperationMetadata{Stage: stage})
		if err != nil {
			return err
		}
		if err := stream.Send(&longrunning.Operation{Name: name, Metadata: meta}); err != nil {
			return err
		}
		e.s.mu.Lock()
		cut := e.s.cutExecute != nil && e.s.cutExecute()
		e.s.mu.Unlock()
		if cut {
			return status.Error(codes.Unavailable, "cut")
		}
	}
	select {
	case <-op.done:
		return send(stream, name, op.response)
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

func send(stream operationStream, name string, r *repb.ExecuteResponse) error {
	a, err := anypb.New(r)
	if err != nil {
		return err
	}
	return stream.Send(&longrunning.Operation{Name: name, Done: true, Result: &longrunning.Operation_Response{Response: a}})
}

// run carries an action out.
func (s *server) run(ctx context.Context, d *repb.Digest) *repb.ExecuteResponse {
	s.mu.Lock()
	hang := s.hang
	if s.answer != nil {
		if r := s.answer(); r != nil {
			s.mu.Unlock()
			return r
		}
	}
	s.mu.Unlock()
	if hang {
		<-ctx.Done()
		return &repb.ExecuteResponse{Status: status.New(codes.Canceled, "cancelled").Proto()}
	}
	res, err := s.runAction(ctx, d)
	if err != nil {
		return &repb.ExecuteResponse{Status: status.Convert(err).Proto()}
	}
	if res.ExitCode == 0 {
		s.mu.Lock()
		s.results[key(d)] = res
		s.mu.Unlock()
	}
	return &repb.ExecuteResponse{Result: res}
}

// load reads a message out of the storage; what is lost is reported as the
// protocol says.
func (s *server) load(d *repb.Digest, m proto.Message) error {
	b, err := s.input(d)
	if err != nil || m == nil {
		return err
	}
	return proto.Unmarshal(b, m)
}

func (s *server) input(d *repb.Digest) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lose != nil && s.lose(key(d)) {
		delete(s.blobs, key(d))
	}
	b, ok := s.blobs[key(d)]
	if !ok {
		st, err := status.New(codes.FailedPrecondition, "inputs are missing").WithDetails(&errdetails.PreconditionFailure{
			Violations: []*errdetails.PreconditionFailure_Violation{{Type: "MISSING", Subject: "blobs/" + key(d)}}})
		return nil, errors.Join(err, st.Err())
	}
	return b, nil
}

func (s *server) runAction(ctx context.Context, d *repb.Digest) (*repb.ActionResult, error) {
	var a repb.Action
	var c repb.Command
	if err := s.load(d, &a); err != nil {
		return nil, err
	}
	if err := s.load(a.CommandDigest, &c); err != nil {
		return nil, err
	}
	root, err := os.MkdirTemp(s.dir, "run")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(root)
	if err := s.stage(root, a.InputRootDigest); err != nil {
		return nil, err
	}
	dir := filepath.Join(root, c.WorkingDirectory)
	for _, o := range c.OutputPaths {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, o)), 0o755); err != nil {
			return nil, err
		}
	}
	program := c.Arguments[0]
	if !filepath.IsAbs(program) {
		program = filepath.Join(dir, program)
	}
	cmd := exec.CommandContext(ctx, program, c.Arguments[1:]...)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	for _, e := range c.EnvironmentVariables {
		cmd.Env = append(cmd.Env, e.Name+"="+e.Value)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if ctx.Err() != nil {
		return nil, status.Error(codes.Canceled, "cancelled")
	}
	res := &repb.ActionResult{ExitCode: int32(cmd.ProcessState.ExitCode()), StdoutRaw: stdout.Bytes()}
	s.mu.Lock()
	defer s.mu.Unlock()
	res.StderrDigest = s.put(stderr.Bytes())
	for _, o := range c.OutputPaths {
		fi, err := os.Lstat(filepath.Join(dir, o))
		if err != nil || !fi.Mode().IsRegular() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, o))
		if err != nil {
			return nil, err
		}
		res.OutputFiles = append(res.OutputFiles, &repb.OutputFile{Path: o, Digest: s.put(b), IsExecutable: fi.Mode()&0o111 != 0})
	}
	return res, nil
}

func (s *server) stage(dir string, d *repb.Digest) error {
	var m repb.Directory
	if err := s.load(d, &m); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, f := range m.Files {
		b, err := s.input(f.Digest)
		if err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if f.IsExecutable {
			mode = 0o755
		}
		if err := os.WriteFile(filepath.Join(dir, f.Name), b, mode); err != nil {
			return err
		}
	}
	for _, l := range m.Symlinks {
		if err := os.Symlink(l.Target, filepath.Join(dir, l.Name)); err != nil {
			return err
		}
	}
	for _, sub := range m.Directories {
		if err := s.stage(filepath.Join(dir, sub.Name), sub.Digest); err != nil {
			return err
		}
	}
	return nil
}

// count is how often a method was called.
func (s *server) count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[method]
}
