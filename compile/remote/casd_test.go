package remote

import (
	"errors"
	"testing"

	"github.com/thox-ai/thoxbuild/compile/action/actiontest"
	"github.com/thox-ai/thoxbuild/compile/local"
	"github.com/thox-ai/thoxbuild/compile/remote/remotetest"
)

// newExecutor is an executor without tools, connected to url.
func newExecutor(t *testing.T, c Config) *Executor {
	t.Helper()
	if c.ToolRoot == "" {
		c.ToolRoot = "/opt/thox/"
	}
	if c.Tools == nil {
		c.Tools = func(name string) (string, []string, error) { return "", nil, errors.New("no tools here") }
	}
	e, err := New(c, &local.Executor{Scratch: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// TestConformance holds the executor on a real server to what the local one
// does.
func TestConformance(t *testing.T) {
	actiontest.Run(t, newExecutor(t, Config{URL: remotetest.Start(t, true).URL}))
}
