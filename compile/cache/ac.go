package cache

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// header starts every entry of the action cache; the digest of the message
// follows. A message cut short may still parse, so the digest is what tells.
const header = "thoxbuild action result v1\n"

// maxInlineLog is how much compiler output an entry carries itself.
const maxInlineLog = 64 << 10

// Result returns what the action of that key made, when every output is
// there. Otherwise the error wraps ErrMiss and says what was wrong.
func (d *Disk) Result(key action.Digest) (*action.Result, error) {
	miss := func(format string, args ...any) (*action.Result, error) {
		return nil, fmt.Errorf("action %s: %w: %s", key.Short(), ErrMiss, fmt.Sprintf(format, args...))
	}
	path := d.path("ac", key)
	f, err := os.Open(path)
	if err != nil {
		return miss("no entry")
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || fi.Size() > 16<<20 {
		return miss("unreadable entry")
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return miss("unreadable entry: %v", err)
	}
	msg, err := decodeEntry(b)
	if err != nil {
		return miss("%v", err)
	}
	r, err := d.resultFromProto(msg)
	if err != nil {
		return miss("%v", err)
	}
	for _, o := range r.Outputs {
		if !d.Has(o.Digest) {
			return miss("output %s is gone", o.Path)
		}
	}
	d.touch(path, fi)
	r.Cached = true
	return r, nil
}

// PutResult records what the action of that key made. Its outputs must be in
// the cache already: data before index.
func (d *Disk) PutResult(key action.Digest, r *action.Result) error {
	msg, err := d.resultToProto(r)
	if err != nil {
		return err
	}
	for _, o := range r.Outputs {
		if !d.Has(o.Digest) {
			return fmt.Errorf("record action %s: output %s is not stored", key.Short(), o.Path)
		}
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(msg)
	if err != nil {
		return err
	}
	err = d.commit(d.path("ac", key), func(w io.Writer) error {
		_, err := io.WriteString(w, header+action.DigestOf(b).String()+"\n"+string(b))
		return err
	})
	if err != nil {
		return fmt.Errorf("record action %s: %w", key.Short(), err)
	}
	return nil
}

// decodeEntry undoes what PutResult wrote.
func decodeEntry(b []byte) (*repb.ActionResult, error) {
	rest, ok := bytes.CutPrefix(b, []byte(header))
	if !ok {
		return nil, fmt.Errorf("entry of another format")
	}
	line, body, ok := bytes.Cut(rest, []byte("\n"))
	if !ok {
		return nil, fmt.Errorf("entry cut short")
	}
	want, err := action.ParseDigest(string(line))
	if err != nil {
		return nil, fmt.Errorf("damaged entry: %w", err)
	}
	if action.DigestOf(body) != want {
		return nil, fmt.Errorf("damaged entry: wrong checksum")
	}
	msg := &repb.ActionResult{}
	if err := proto.Unmarshal(body, msg); err != nil {
		return nil, fmt.Errorf("damaged entry: %w", err)
	}
	return msg, nil
}

func (d *Disk) resultToProto(r *action.Result) (*repb.ActionResult, error) {
	meta := &repb.ExecutedActionMetadata{VirtualExecutionDuration: durationpb.New(r.Wall)}
	for _, m := range []proto.Message{durationpb.New(r.CPU), wrapperspb.Int64(r.MaxRSS)} {
		a, err := anypb.New(m)
		if err != nil {
			return nil, err
		}
		meta.AuxiliaryMetadata = append(meta.AuxiliaryMetadata, a)
	}
	msg := &repb.ActionResult{ExitCode: int32(r.ExitCode), ExecutionMetadata: meta}
	for _, o := range r.Outputs {
		msg.OutputFiles = append(msg.OutputFiles, &repb.OutputFile{Path: o.Path, Digest: o.Digest.Proto(), IsExecutable: o.Exec})
	}
	slices.SortFunc(msg.OutputFiles, func(a, b *repb.OutputFile) int { return cmp.Compare(a.Path, b.Path) })
	if len(r.Log) <= maxInlineLog {
		msg.StdoutRaw = r.Log
		return msg, nil
	}
	dg, err := d.PutBlob(r.Log)
	if err != nil {
		return nil, err
	}
	msg.StdoutDigest = dg.Proto()
	return msg, nil
}

// resultFromProto takes nothing on trust: a path that leaves the tree or a
// digest that is none makes the whole entry unusable.
func (d *Disk) resultFromProto(msg *repb.ActionResult) (*action.Result, error) {
	r := &action.Result{ExitCode: int(msg.ExitCode), Log: msg.StdoutRaw}
	for _, o := range msg.OutputFiles {
		dg, err := action.FromProto(o.Digest)
		if err != nil {
			return nil, fmt.Errorf("output %q: %w", o.Path, err)
		}
		if o.Path == "" || strings.HasPrefix(o.Path, "/") || slices.Contains(strings.Split(o.Path, "/"), "..") {
			return nil, fmt.Errorf("output %q leaves its folder", o.Path)
		}
		r.Outputs = append(r.Outputs, action.Output{Path: o.Path, Digest: dg, Exec: o.IsExecutable})
	}
	if msg.StdoutDigest != nil && len(r.Log) == 0 {
		dg, err := action.FromProto(msg.StdoutDigest)
		if err != nil {
			return nil, fmt.Errorf("log: %w", err)
		}
		if r.Log, err = d.ReadBlob(dg); err != nil {
			return nil, fmt.Errorf("log: %w", err)
		}
	}
	r.Wall = duration(msg.GetExecutionMetadata().GetVirtualExecutionDuration())
	for _, a := range msg.GetExecutionMetadata().GetAuxiliaryMetadata() {
		var cpu durationpb.Duration
		var rss wrapperspb.Int64Value
		switch {
		case a.MessageIs(&cpu) && a.UnmarshalTo(&cpu) == nil:
			r.CPU = duration(&cpu)
		case a.MessageIs(&rss) && a.UnmarshalTo(&rss) == nil:
			r.MaxRSS = rss.Value
		}
	}
	return r, nil
}

// duration reads a duration that may be missing or out of range.
func duration(d *durationpb.Duration) time.Duration {
	if d == nil || d.CheckValid() != nil {
		return 0
	}
	return max(0, d.AsDuration())
}
