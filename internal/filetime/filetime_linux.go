package filetime

import (
	"os"
	"syscall"
	"time"
)

// Changed is the time of the last change of a file or its attributes, which no
// program can set back, and the number that tells it from another file. Where
// the system has neither they are the modification time and 0.
func Changed(fi os.FileInfo) (changed time.Time, inode uint64) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return fi.ModTime(), 0
	}
	return time.Unix(st.Ctim.Unix()), st.Ino
}
