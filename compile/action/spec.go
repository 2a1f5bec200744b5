package action

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	repb "github.com/bazelbuild/remote-apis/build/bazel/remote/execution/v2"
	"google.golang.org/protobuf/proto"
)

// Spec is one action with everything known that it depends on.
type Spec struct {
	// Label names the action to people, such as "compile norm.cpp (avx2)". It
	// is not part of the key.
	Label string
	// Args is the command. Args[0] is a program's virtual path; every file it
	// reads or writes is relative to the working directory.
	Args []string
	// Env is the whole environment; nothing is inherited.
	Env map[string]string
	// Inputs is the whole tree the command may read, apart from its tools.
	Inputs []File
	// Outputs are the files that the command writes.
	Outputs []string
	// Platform holds what the key needs to say about the machine: above all
	// the fingerprint of every tool under its name.
	Platform map[string]string
}

// Encoded is a Spec in the protocol's messages.
type Encoded struct {
	// Key is the digest of the Action message.
	Key Digest
	// Command and InputRoot are the digests inside that message.
	Command, InputRoot Digest
	// Blobs holds the bytes of the Action, Command and Directory messages. The
	// input files themselves are not among them.
	Blobs map[Digest][]byte
}

// salt separates the keys of releases whose actions mean different things
// although they read the same. Raise the number with such a change.
var salt = []byte("thoxbuild 1")

// Encode checks the action and turns it into messages. Equal actions give
// equal bytes on every machine: repeated fields are sorted as the protocol
// demands, and messages are marshalled deterministically, which for messages
// without maps or unknown fields is their canonical form.
func (s *Spec) Encode() (*Encoded, error) {
	if len(s.Args) == 0 {
		return nil, fmt.Errorf("%s: no command", s.Label)
	}
	if len(s.Outputs) == 0 {
		return nil, fmt.Errorf("%s: no outputs", s.Label)
	}
	outputs := slices.Sorted(slices.Values(s.Outputs))
	for i, o := range outputs {
		if err := checkPath(o); err != nil {
			return nil, fmt.Errorf("%s: output: %w", s.Label, err)
		}
		if i > 0 && outputs[i-1] == o {
			return nil, fmt.Errorf("%s: output %q is listed twice", s.Label, o)
		}
	}
	e := &Encoded{Blobs: map[Digest][]byte{}}
	var err error
	if e.InputRoot, err = buildTree(s.Inputs, outputs, e.Blobs); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Label, err)
	}
	platform := platformProto(s.Platform)
	//lint:ignore SA1019 servers older than API 2.2 read the platform from here; newer ones from the Action
	command := &repb.Command{Arguments: s.Args, OutputPaths: outputs, Platform: platform}
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		command.EnvironmentVariables = append(command.EnvironmentVariables,
			&repb.Command_EnvironmentVariable{Name: k, Value: s.Env[k]})
	}
	if e.Command, err = addMessage(command, e.Blobs); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Label, err)
	}
	e.Key, err = addMessage(&repb.Action{
		CommandDigest:   e.Command.Proto(),
		InputRootDigest: e.InputRoot.Proto(),
		Salt:            salt,
		Platform:        platform,
	}, e.Blobs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Label, err)
	}
	return e, nil
}

func platformProto(properties map[string]string) *repb.Platform {
	p := &repb.Platform{}
	for name, value := range properties {
		p.Properties = append(p.Properties, &repb.Platform_Property{Name: name, Value: value})
	}
	slices.SortFunc(p.Properties, func(a, b *repb.Platform_Property) int { return cmp.Compare(a.Name, b.Name) })
	return p
}

// addMessage stores a message under the digest of its bytes.
func addMessage(m proto.Message, blobs map[Digest][]byte) (Digest, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return Digest{}, err // only text that is not UTF-8
	}
	d := DigestOf(b)
	blobs[d] = b
	return d, nil
}
