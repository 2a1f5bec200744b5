package remote

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/proto"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// The input tree holds the action's own files in one folder, where the command
// runs, and beside it the tools and an empty folder for what they write by the
// way. So no file of a kernel is in the way of a tool, or of a place that a
// sandbox with the tree as its root mounts something at.
const (
	workDir    = "kernel"
	scratchDir = "scratch"
	toolsDir   = "tools"

	// Scratch is the empty folder as a command names it.
	Scratch = "../" + scratchDir
)

// job is an action in the form in which the cluster runs it.
type job struct {
	digest action.Digest
	tools  []*tool
	blobs  []blob // everything else
}

// prepare makes the job of a request: the input tree with the tools in it, and a
// command that finds them there.
func (e *Executor) prepare(ctx context.Context, req *action.Request, tools []string) (*job, error) {
	j := &job{}
	folder := &repb.Directory{}
	for _, name := range tools {
		t, err := e.tree(ctx, name)
		if err != nil {
			return nil, err
		}
		j.tools = append(j.tools, t)
		folder.Directories = append(folder.Directories, &repb.DirectoryNode{Name: name, Digest: t.root.Proto()})
	}
	toolsFolder, err := j.add(folder)
	if err != nil {
		return nil, err
	}
	empty, err := j.add(&repb.Directory{})
	if err != nil {
		return nil, err
	}
	root, err := j.add(&repb.Directory{Directories: []*repb.DirectoryNode{ // sorted by name
		{Name: workDir, Digest: req.Encoded.InputRoot.Proto()},
		{Name: scratchDir, Digest: empty.Proto()},
		{Name: toolsDir, Digest: toolsFolder.Proto()},
	}})
	if err != nil {
		return nil, err
	}
	command, err := e.command(req)
	if err != nil {
		return nil, err
	}
	commandDigest, err := j.add(command)
	if err != nil {
		return nil, err
	}
	if j.digest, err = j.add(&repb.Action{
		CommandDigest: commandDigest.Proto(), InputRootDigest: root.Proto(), Salt: salt, Platform: e.platform(),
	}); err != nil {
		return nil, err
	}
	for d, b := range req.Encoded.Blobs {
		if d != req.Encoded.Key && d != req.Encoded.Command {
			j.blobs = append(j.blobs, bytesBlob(b))
		}
	}
	for _, in := range req.Spec.Inputs {
		j.blobs = append(j.blobs, blob{in.Digest, func() (io.ReadCloser, error) {
			r, err := req.Open(in.Digest)
			if err != nil {
				err = fmt.Errorf("input %s: %w", in.Path, err)
			}
			return r, err
		}})
	}
	return j, nil
}

// salt separates results of releases that say the same to a cluster and mean
// something else.
var salt = []byte("thoxbuild remote 1")

// add makes a blob of a message that belongs to the job.
func (j *job) add(m proto.Message) (action.Digest, error) {
	b, err := marshal(m)
	if err == nil {
		j.blobs = append(j.blobs, b)
	}
	return b.digest, err
}

// command is the command of a request with the tools at relative paths, and with
// folders for what they write by the way.
func (e *Executor) command(req *action.Request) (*repb.Command, error) {
	c := &repb.Command{}
	if err := proto.Unmarshal(req.Encoded.Blobs[req.Encoded.Command], c); err != nil {
		return nil, err
	}
	c.WorkingDirectory = workDir
	move := func(s string) string { return action.MapPaths(s, e.relative) }
	for i, a := range c.Arguments {
		c.Arguments[i] = move(a)
	}
	env := map[string]string{"HOME": Scratch, "TMPDIR": Scratch}
	maps.Copy(env, e.Env)
	for k, v := range req.Spec.Env {
		env[k] = move(v)
	}
	c.EnvironmentVariables = nil
	for _, k := range sortedKeys(env) {
		c.EnvironmentVariables = append(c.EnvironmentVariables, &repb.Command_EnvironmentVariable{Name: k, Value: env[k]})
	}
	//lint:ignore SA1019 servers older than version 2.2 of the API look here
	c.Platform = e.platform()
	return c, nil
}

// platform is what the cluster is told about the machine that an action needs.
// The fingerprints of tools are not among it: servers refuse properties that
// they do not know, and the tools themselves are inputs.
func (e *Executor) platform() *repb.Platform {
	p := &repb.Platform{}
	for _, k := range sortedKeys(e.client.config.Platform) {
		p.Properties = append(p.Properties, &repb.Platform_Property{Name: k, Value: e.client.config.Platform[k]})
	}
	return p
}

// relative replaces virtual tool paths by those in the input tree.
func (e *Executor) relative(s string) string {
	return strings.ReplaceAll(s, e.client.config.ToolRoot, "../"+toolsDir+"/")
}

// toolNames are the tools that a command or its environment names, and those that
// these need beside them, sorted.
func (e *Executor) toolNames(s *action.Spec) ([]string, error) {
	found := map[string]bool{}
	look := func(text string) {
		for {
			_, rest, ok := strings.Cut(text, e.client.config.ToolRoot)
			if !ok {
				return
			}
			end := strings.IndexFunc(rest, func(r rune) bool { return !toolNameRune(r) })
			if end < 0 {
				end = len(rest)
			}
			if end > 0 {
				found[rest[:end]] = true
			}
			text = rest
		}
	}
	for _, a := range s.Args {
		look(a)
	}
	for _, v := range s.Env {
		look(v)
	}
	for next := sortedKeys(found); len(next) > 0; next = next[1:] {
		_, needs, err := e.client.config.Tools(next[0])
		if err != nil {
			return nil, err
		}
		for _, n := range needs {
			if !found[n] {
				found[n] = true
				next = append(next, n)
			}
		}
	}
	return sortedKeys(found), nil
}

// toolNameRune reports whether the name of a tool may hold r; anything else ends
// it, as in A=/opt/thox/x:/opt/thox/y.
func toolNameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.+", r)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
