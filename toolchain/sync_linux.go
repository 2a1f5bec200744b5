package toolchain

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncFile flushes the file system that f lies on.
func syncFile(f *os.File) { _ = unix.Syncfs(int(f.Fd())) }
