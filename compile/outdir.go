package compile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// tempPrefix starts the names of folders that are being put together.
const tempPrefix = ".thoxbuild-"

// lockOut keeps other processes from assembling into the same folder, and
// removes what a killed one left half done. The lock is on the folder itself:
// another build may call it by another name, or use another store.
func (r *runner) lockOut(ctx context.Context) (unlock func(), err error) {
	out := r.p.cfg.OutDir
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, err
	}
	l := flock.New(out, flock.SetFlag(os.O_RDONLY))
	ok, err := l.TryLockContext(ctx, outPoll)
	if !ok && ctx.Err() == nil {
		// A file system that locks no folder, as NFS does: at least the
		// builds that share this store keep out of each other's way.
		if l, err = r.cacheLock(out); err == nil {
			ok, err = l.TryLockContext(ctx, outPoll)
		}
	}
	if !ok {
		return nil, fmt.Errorf("lock %s: %w", out, err)
	}
	left, err := os.ReadDir(out)
	if err != nil {
		l.Unlock()
		return nil, err
	}
	for _, e := range left {
		if strings.HasPrefix(e.Name(), tempPrefix) {
			os.RemoveAll(filepath.Join(out, e.Name()))
		}
	}
	return func() { l.Unlock() }, nil
}

// outPoll is how often a build looks whether another one has left the folder.
const outPoll = 20 * time.Millisecond

// cacheLock is a file of the cache that stands for a folder.
func (r *runner) cacheLock(out string) (*flock.Flock, error) {
	out, err := filepath.EvalSymlinks(out)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(r.o.Cache.Dir(), "locks")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(out))
	return flock.New(filepath.Join(dir, hex.EncodeToString(sum[:8])), flock.SetPermissions(0o666)), nil
}
