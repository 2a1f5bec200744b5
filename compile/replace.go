package compile

import (
	"errors"
	"io/fs"
	"os"
)

// replaceInTwoSteps is for file systems that cannot exchange two folders. A
// process that is killed in between leaves no folder, and the next run makes
// it again from the cache.
func replaceInTwoSteps(from, to string) error {
	old := from + "-old"
	if err := os.Rename(to, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return os.RemoveAll(old)
}
