//go:build !linux

package source

import "os"

func indexedStat(fi os.FileInfo) *indexed {
	return &indexed{Size: fi.Size(), MTime: fi.ModTime().UnixNano()}
}
