package source

import (
	"os"
	"syscall"
)

// indexedStat takes what tells a changed file from the same one. The change
// time catches an edit that sets the modification time back.
func indexedStat(fi os.FileInfo) *indexed {
	e := &indexed{Size: fi.Size(), MTime: fi.ModTime().UnixNano()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		e.CTime, e.Inode = st.Ctim.Nano(), st.Ino
	}
	return e
}
