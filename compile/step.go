package compile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/thox-ai/thoxbuild/compile/action"
	"github.com/thox-ai/thoxbuild/compile/cache"
)

// stepEnv is what an action that runs in this process sees of its inputs and
// where it puts its outputs.
type stepEnv struct {
	spec  *action.Spec
	cache *cache.Disk
	ctx   context.Context
}

// path is a verified, read-only file with the bytes of an input.
func (s *stepEnv) path(name string) (string, error) {
	for _, in := range s.spec.Inputs {
		if in.Path == name {
			if p, ok := s.cache.Path(in.Digest); ok {
				return p, nil
			}
			return "", &missingBlobError{in.Digest}
		}
	}
	return "", fmt.Errorf("%s: %q is no input", s.spec.Label, name)
}

func (s *stepEnv) read(name string) ([]byte, error) {
	p, err := s.path(name)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Clean(p))
}

// write stores the only output of an action.
func (s *stepEnv) write(name string, b []byte) (*action.Result, error) {
	d, err := s.cache.PutBlob(b)
	if err != nil {
		return nil, err
	}
	return &action.Result{Outputs: []action.Output{{Path: name, Digest: d}}}, nil
}

// missingBlobError says that a blob which the cache promised is gone or
// damaged. Whoever made it has to make it again.
type missingBlobError struct{ digest action.Digest }

func (e *missingBlobError) Error() string {
	return fmt.Sprintf("blob %s has gone from the cache", e.digest.Short())
}
