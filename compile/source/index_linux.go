package source

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// changeClock is the clock that the kernel stamps files with.
func changeClock() time.Time {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &t) != nil {
		return time.Now()
	}
	return time.Unix(t.Unix())
}

// sameClock reports whether a file's change time is of this machine's clock. A
// server's may differ, and what is not known to be local may be a server's.
func sameClock(path string) bool {
	var fs unix.Statfs_t
	if unix.Statfs(path, &fs) != nil {
		return false
	}
	return slices.Contains(localFS, int64(fs.Type))
}

var localFS = []int64{
	unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
	unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC,
}
