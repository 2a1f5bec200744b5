//go:build !linux

package toolchain

import (
	"os"
	"time"
)

func changeOf(fi os.FileInfo) (changed time.Time, inode uint64) { return fi.ModTime(), 0 }
