//go:build !linux

package toolchain

import "os"

func syncFile(f *os.File) error { return f.Sync() }

func bootID() string { return "" }
