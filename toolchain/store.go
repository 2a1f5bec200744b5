package toolchain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/thox-ai/thoxbuild/manifests"
)

// Options say where the store is and what it may do.
type Options struct {
	// Dir is the store's folder; it is made when missing.
	Dir string
	// IndexURL is the --index-url flag; empty means IndexURL's search.
	IndexURL string
	// Offline forbids the network: only what the store holds is used.
	Offline bool
	// Lock pins packages. Nil means a lock that is kept nowhere.
	Lock *Lock
	// Progress and Log may be nil.
	Progress Progress
	Log      func(format string, args ...any)
	// Client is the HTTP client; nil means one that is fit for large files.
	Client *http.Client
}

// Store is a folder of unpacked packages. Several processes may use one store
// at once, and any of them may be killed at any moment: an entry appears whole
// by a rename or not at all.
//
//	tools/<name>-<version>-<digest>/   an entry; its name says what is in it
//	downloads/                         wheels, and parts of wheels
//	tmp/                               what is being unpacked
//	locks/                             one file per entry that is being made
//	unsettled/                         one file per entry that is not synced yet
type Store struct {
	dir   string
	opts  Options
	index *index
	pins  *Lock // what any workspace pinned last, for --offline
	now   func() time.Time

	ctx    context.Context // of what runs beside the calls; ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup

	aheadMu sync.Mutex
	ahead   map[string]*making // what entryAhead began, by name

	bootID   func() string
	syncs    sync.WaitGroup
	settleMu sync.Mutex
	marks    map[string]*flock.Flock // of entries that wait for a sync, by name
	settling bool                    // a sync runs and looks at marks again

	cxxMu sync.Mutex
	cxx   map[manifests.Arch]string // what libstdcxx returned

	clangMu sync.Mutex
	clang   map[string][]byte // first line of --version by program, asked once: each kit of CUDA 12.6 needs it
}

func (s *Store) pinsPath() string { return filepath.Join(s.dir, "locks", "pins.json") }

// Open opens or makes a store.
func Open(o Options) (*Store, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	if o.Lock == nil {
		o.Lock = &Lock{}
	}
	client := o.Client
	if client == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.ResponseHeaderTimeout = 60 * time.Second
		client = &http.Client{Transport: t}
	}
	s := &Store{dir: dir, opts: o, now: time.Now, bootID: bootID}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.index = &index{client: client, find: func(ctx context.Context) (string, error) {
		if o.Offline {
			return "", &Error{"reach the package index", errors.New("--offline forbids it"),
				"run 'thoxbuild toolchain fetch' once with the network, or leave --offline out"}
		}
		return IndexURL(ctx, o.IndexURL)
	}}
	for _, d := range []string{"tools", "tmp", "locks"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o777); err != nil {
			return nil, s.writeError("open the store "+dir, err)
		}
	}
	if s.pins, err = ReadLock(s.pinsPath()); err != nil {
		s.pins = &Lock{}
	}
	return s, s.recover()
}

// Dir is the store's real folder.
func (s *Store) Dir() string { return s.dir }

// Real replaces virtual paths inside an argument by real ones. Only the form
// with the slash is a path; "/opt/thox" alone stays.
func (s *Store) Real(arg string) string {
	return strings.ReplaceAll(arg, VirtualRoot+"/", filepath.Join(s.dir, "tools")+"/")
}

// LocalEnv is what a command of this store needs in its environment beside
// what its key covers: zig's caches, and which Xcode is meant. zig misses a
// header that newly shadows another one, so each set of fingerprints has caches
// of its own.
func (s *Store) LocalEnv(fingerprints map[string]string) map[string]string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(fingerprints)) {
		parts = append(parts, k, fingerprints[k])
	}
	dir := filepath.Join(s.dir, "zig-cache", fingerprint(parts...))
	env := map[string]string{"ZIG_GLOBAL_CACHE_DIR": dir, "ZIG_LOCAL_CACHE_DIR": dir}
	// Which Xcode xcrun takes, where it is not the one of xcode-select. The
	// fingerprints tell two apart.
	if d := os.Getenv("DEVELOPER_DIR"); d != "" {
		env["DEVELOPER_DIR"] = d
	}
	return env
}

func (s *Store) writeError(op string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return &Error{op, err, "free some space, or move the store with --store DIR"}
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		return &Error{op, err, "the store must be writable; choose another with --store DIR"}
	case errors.Is(err, errNoRanges):
		return &Error{op, err, "a proxy in between may do that; reach the index directly, or use --index-url with one that honours ranges"}
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return err
	}
	return &Error{op, err, "check the network and run the command again; finished transfers are kept"}
}

// entry returns a virtual folder that fill makes. The name holds a digest of
// everything that decides the content, so an entry that exists is right.
func (s *Store) entry(ctx context.Context, name string, fill func(dir string) error) (string, error) {
	virtual := VirtualRoot + "/" + name
	if s.has(name) {
		return virtual, nil
	}
	// One process makes it, others wait and find it.
	lock := s.lockOf(name)
	if ok, err := lock.TryLockContext(ctx, 100*time.Millisecond); err != nil || !ok {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", s.writeError("lock "+name, err)
	}
	mark, err := s.make(ctx, name, fill)
	lock.Unlock()
	if mark != nil {
		s.settle(name, mark)
	}
	if err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", s.writeError("make "+name, err)
	}
	return virtual, nil
}

// make makes an entry whose lock is held. Its files are written without fsync,
// and one sync of the file system costs less than one for each; a mark, if
// there is one, says that it is still to be done.
func (s *Store) make(ctx context.Context, name string, fill func(dir string) error) (*flock.Flock, error) {
	if s.has(name) {
		return nil, nil
	}
	s.sweep(name)
	tmp, err := os.MkdirTemp(filepath.Join(s.dir, "tmp"), name+".")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return nil, err
	}
	mark, err := s.mark(ctx, name) // now, while the disk has little else to write
	if err == nil {
		err = fill(tmp)
	}
	if err == nil && mark == nil {
		syncFS(tmp)
	}
	if err == nil {
		err = os.Rename(tmp, filepath.Join(s.dir, "tools", name))
	}
	if err == nil {
		return mark, nil
	}
	os.RemoveAll(tmp)
	if mark != nil {
		os.Remove(s.unsettled(name))
		mark.Unlock()
	}
	return nil, err
}

// sweep removes what killed processes left of an entry whose lock is held, and
// returns how large it was. A compiler that one of them started may still run
// and write there, which is why no two makers share a folder; what cannot be
// removed for that reason stays for the next sweep.
func (s *Store) sweep(name string) (freed int64) {
	left, _ := filepath.Glob(filepath.Join(s.dir, "tmp", name+".*"))
	for _, dir := range left {
		size := treeSize(dir)
		if os.RemoveAll(dir) == nil {
			freed += size
		}
	}
	return freed
}

// sharedFile are the permissions of locks and marks. Like those of the store's
// folders they leave it to the umask whether a group shares the store.
const sharedFile = 0o666

// lockOf is held by whoever makes or removes an entry.
func (s *Store) lockOf(name string) *flock.Flock {
	return flock.New(filepath.Join(s.dir, "locks", name), flock.SetPermissions(sharedFile))
}

// has reports whether an entry is there.
func (s *Store) has(name string) bool { return isDir(filepath.Join(s.dir, "tools", name)) }

// syncFS flushes the file system that a folder lies on.
func syncFS(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	return syncFile(f) == nil
}

func isDir(p string) bool {
	fi, err := os.Stat(p)
	return err == nil && fi.IsDir()
}

// fingerprint digests labelled facts into the short form that entry names and
// action keys carry.
func fingerprint(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s\n", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:20]
}
