// Command thoxbuild builds, checks and publishes PyTorch kernels for every
// torch, compute and platform variant from one plain machine.
package main

import (
	"context"
	"os"

	"github.com/thox-ai/thoxbuild/cmd/thoxbuild/command"
)

func main() {
	os.Exit(command.Main(context.Background(), os.Args[1:], command.OSStreams()))
}
