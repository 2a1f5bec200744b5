// Command thoxbuild builds, checks and publishes PyTorch kernels for every
// torch, compute and platform variant from one plain machine.
package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/thox-ai/thoxbuild/cmd/thoxbuild/command"
)

func main() {
	collectLater()
	os.Exit(command.Main(context.Background(), os.Args[1:], command.OSStreams()))
}

// collectLater puts the first garbage collection off until the heap has 16 MB
// instead of 4; from then on the usual rule holds. A command that changes
// nothing ends before that, and spent a fifth of its time on collections.
func collectLater() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(400)
	first := new([16]byte) // large enough to get a finalizer of its own
	runtime.SetFinalizer(first, func(*[16]byte) { debug.SetGCPercent(100) })
}
