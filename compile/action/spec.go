package action

import (
	"fmt"
	"maps"
	"slices"
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
// demands, and messages without maps or unknown fields have one canonical form.
func (s *Spec) Encode() (*Encoded, error) {
	return s.encode(map[Digest][]byte{})
}

// Key checks the action as Encode does and returns the key alone.
func (s *Spec) Key() (Digest, error) {
	e, err := s.encode(nil)
	if err != nil {
		return Digest{}, err
	}
	return e.Key, nil
}

func (s *Spec) encode(blobs map[Digest][]byte) (*Encoded, error) {
	if len(s.Args) == 0 {
		return nil, fmt.Errorf("%s: no command", s.Label)
	}
	if len(s.Outputs) == 0 {
		return nil, fmt.Errorf("%s: no outputs", s.Label)
	}
	outputs := s.Outputs
	if !slices.IsSorted(outputs) {
		outputs = slices.Sorted(slices.Values(s.Outputs))
	}
	for i, o := range outputs {
		if err := checkPath(o); err != nil {
			return nil, fmt.Errorf("%s: output: %w", s.Label, err)
		}
		if i > 0 && outputs[i-1] == o {
			return nil, fmt.Errorf("%s: output %q is listed twice", s.Label, o)
		}
	}
	e, w := &Encoded{Blobs: blobs}, wires.Get().(*wire)
	w.blobs, w.bad = blobs, ""
	defer func() {
		w.blobs = nil
		wires.Put(w)
	}()
	var err error
	if e.InputRoot, err = w.tree(s.Inputs, outputs); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Label, err)
	}
	properties := sortedKeys(s.Platform)
	e.Command = w.command(s, outputs, properties)
	e.Key = w.action(e.Command, e.InputRoot, s.Platform, properties)
	if w.bad != "" {
		return nil, fmt.Errorf("%s: %q is not UTF-8", s.Label, w.bad)
	}
	return e, nil
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
