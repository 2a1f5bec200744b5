//go:build !linux

package toolchain

import "os"

func syncFile(f *os.File) { _ = f.Sync() }
