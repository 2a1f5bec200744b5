package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// startWriteback asks the kernel to begin writing a range to the disk, so that
// the sync at the end of a large file has little left to wait for.
func startWriteback(f *os.File, off, n int64) {
	if n > 0 {
		_ = unix.SyncFileRange(int(f.Fd()), off, n, unix.SYNC_FILE_RANGE_WRITE)
	}
}
