package actiontest

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// Memory is a Sink and a source of inputs. Its methods may be called by many
// goroutines.
type Memory struct {
	mu    sync.Mutex
	blobs map[action.Digest]string
}

var _ action.Sink = (*Memory)(nil)

// PutFile implements action.Sink.
func (m *Memory) PutFile(_ context.Context, path string) (action.Digest, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return action.Digest{}, err
	}
	return m.Add(string(b)), nil
}

// Put implements action.Sink.
func (m *Memory) Put(_ context.Context, want action.Digest, r io.Reader) error {
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if got := action.DigestOf(b); got != want {
		return fmt.Errorf("received %s, expected %s", got, want)
	}
	m.Add(string(b))
	return nil
}

// Add stores a text and returns its digest.
func (m *Memory) Add(text string) action.Digest {
	d := action.DigestOf([]byte(text))
	m.Set(d, text)
	return d
}

// Set stores a text under any digest, also a wrong one.
func (m *Memory) Set(d action.Digest, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blobs == nil {
		m.blobs = map[action.Digest]string{}
	}
	m.blobs[d] = text
}

// Get returns what was stored.
func (m *Memory) Get(d action.Digest) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.blobs[d]
	return s, ok
}

// Open is the Open of a Request.
func (m *Memory) Open(d action.Digest) (io.ReadCloser, error) {
	s, ok := m.Get(d)
	if !ok {
		return nil, fmt.Errorf("no blob %s", d)
	}
	return io.NopCloser(strings.NewReader(s)), nil
}

// Request makes a request of a specification whose inputs m holds.
func (m *Memory) Request(t testing.TB, s *action.Spec) *action.Request {
	t.Helper()
	enc, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return &action.Request{Spec: s, Encoded: enc, Open: m.Open}
}

// Shell makes an action of a shell script.
func Shell(script string, outputs ...string) *action.Spec {
	return &action.Spec{
		Label: "test", Args: []string{"/bin/sh", "-c", script},
		Env: map[string]string{"PATH": "/usr/bin:/bin"}, Outputs: outputs,
	}
}
