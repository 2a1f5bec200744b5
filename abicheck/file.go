package abicheck

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"syscall"
)

// openFile opens a regular file. Anything else is refused at once: opening a
// named pipe waits for a writer, and no context ends that.
func openFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = notAFile(name, st.Mode())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func notAFile(name string, mode fs.FileMode) error {
	what := "a special file"
	switch mode.Type() {
	case fs.ModeNamedPipe:
		what = "a pipe"
	case fs.ModeSocket:
		what = "a socket"
	case fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		what = "a device"
	}
	return fmt.Errorf("%s: expected a file or a folder, found %s", name, what)
}

// ofMachine reports whether an error is of this machine, a full disk or one that
// cannot be read, and says nothing of the file that was checked.
func ofMachine(err error) bool {
	var e *fs.PathError
	return errors.As(err, &e)
}

// libraryName is how files are called that a loader opens.
var libraryName = regexp.MustCompile(`\.(so(\.[0-9]+)*|pyd|dll|dylib)$`)

// hollow tells why a file with the name of a library holds none, from its first
// sniffLen bytes; it is empty for others. Text under such a name may be a script
// for the linker and is nothing to us.
func hollow(name string, head []byte) string {
	switch {
	case !libraryName.MatchString(path.Base(slashed(name))):
		return ""
	case len(head) == 0:
		return "is empty"
	case len(head) < 4:
		return fmt.Sprintf("has no more than %d bytes", len(head))
	case string(head) == "version ": // the first line of the pointer's format
		return "is a pointer of Git LFS and not the library; 'git lfs pull' fetches it"
	}
	return ""
}
