package local

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// stageTime is the time of every staged source: __TIMESTAMP__ expands to it.
var stageTime = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// stage puts the input tree of an action under root. A blob that will not
// change is linked; a source file is copied and checked against the digest
// that is in the key, so an edit during the build can't end up under the key
// of the old text.
func stage(root string, req *action.Request) error {
	for _, f := range req.Spec.Inputs {
		to := filepath.Join(root, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if req.Path != nil && !f.Exec {
			if from, ok := req.Path(f.Digest); ok && os.Link(from, to) == nil {
				continue
			}
		}
		if err := copyChecked(to, f, req.Open); err != nil {
			return fmt.Errorf("input %s: %w", f.Path, err)
		}
	}
	for _, o := range req.Spec.Outputs {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, filepath.FromSlash(o))), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func copyChecked(to string, f action.File, open func(action.Digest) (io.ReadCloser, error)) error {
	r, err := open(f.Digest)
	if err != nil {
		return err
	}
	defer r.Close()
	mode := os.FileMode(0o644)
	if f.Exec {
		mode = 0o755
	}
	w, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	defer w.Close()
	got, err := action.Copy(w, r)
	if err != nil {
		return err
	}
	if got != f.Digest {
		return action.ErrChanged
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.Chtimes(to, stageTime, stageTime)
}
