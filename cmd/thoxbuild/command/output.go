package command

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// answerFile is a file that a flag or an argument names for an answer.
type answerFile struct {
	io.Writer
	// finish makes what was written final; without it nothing is there.
	finish func() error
	// close may be called at any time, and after finish does nothing.
	close func()
}

// create opens the place for an answer: stdout for -, a file that appears whole
// or not at all, or what there is already of another kind. A rename would put a
// file in the place of /dev/null or a pipe.
func (s *Streams) create(name string) (*answerFile, error) {
	if name == "-" {
		return &answerFile{s.Out, func() error { return nil }, func() {}}, nil
	}
	fi, err := os.Stat(name)
	switch {
	case err != nil:
	case fi.IsDir():
		return nil, &fs.PathError{Op: "write", Path: name, Err: fmt.Errorf("expected a file, found a folder")}
	case !fi.Mode().IsRegular():
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		return &answerFile{f, f.Close, func() { f.Close() }}, nil
	default:
		if name, err = filepath.EvalSymlinks(name); err != nil { // a link stays one
			return nil, err
		}
	}
	f, err := renameio.NewPendingFile(name, renameio.WithPermissions(0o644))
	if err != nil {
		return nil, err
	}
	return &answerFile{f, f.CloseAtomicallyReplace, func() { f.Cleanup() }}, nil
}
