package compile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// replaceDir puts the folder from in the place of to. Where to exists the two
// change places in one step, so that no moment has neither; the caller removes
// what is then at from.
func replaceDir(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOENT):
		return os.Rename(from, to)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return replaceInTwoSteps(from, to)
	default:
		return &os.LinkError{Op: "exchange", Old: from, New: to, Err: err}
	}
}
