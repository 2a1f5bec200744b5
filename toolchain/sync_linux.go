package toolchain

import (
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// syncFile flushes the file system that f lies on.
func syncFile(f *os.File) error { return unix.Syncfs(int(f.Fd())) }

// bootID is the kernel's name for the time since it started, or "".
var bootID = sync.OnceValue(func() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
})
