package pull

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/hub/source"
	"github.com/thox-ai/thoxbuild/manifests"
	"golang.org/x/sync/errgroup"
)

// target is the place that is written to.
type target struct {
	layout Layout
	shown  string
	// base is the repository's folder in the cache, or DIR.
	base string
	// blobs holds finished files by content, stage the variant being put
	// together, at the same depth as final so that relative links fit both.
	blobs, stage, final string
	rev                 string
	parallel            int
}

func newTarget(o Options, rev string) (*target, error) {
	t := &target{layout: o.Layout, rev: rev, parallel: o.Parallel}
	if t.parallel <= 0 {
		t.parallel = 8
	}
	if o.Dir == "" {
		return nil, errors.New("no folder to install to")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	switch o.Layout {
	case Cache:
		if hexRev, ok := strings.CutPrefix(rev, "sha256:"); ok {
			// The library pins by commit ids of 40 digits; an image has none.
			rev = hexRev[:40]
		}
		if !client.IsCommit(rev) {
			return nil, fmt.Errorf("revision %q: a cache needs a full commit id; pull with a lock, or with the plain layout", rev)
		}
		if o.Repo.Name == "" {
			return nil, errors.New("a cache needs the repository's name")
		}
		t.rev = rev
		t.base = filepath.Join(dir, o.Repo.CacheFolder())
		t.blobs = filepath.Join(t.base, "blobs")
		t.final = filepath.Join(t.base, "snapshots", rev, "build")
		t.stage = filepath.Join(t.base, ".pull", rev, "build")
		t.shown = dir
	case Plain:
		t.base, t.shown = dir, dir
		t.blobs = filepath.Join(dir, ".pull", "blobs")
		t.final = filepath.Join(dir, "build")
		t.stage = filepath.Join(dir, ".pull", "build")
	default:
		return nil, fmt.Errorf("layout %q: expected cache or plain", o.Layout)
	}
	return t, nil
}

// open makes the folders, which are this pull's alone until close: a second one
// into the same place waits, and finds there what the first has brought.
func (t *target) open(ctx context.Context) (close func(), err error) {
	if err := os.MkdirAll(t.base, 0o755); err != nil {
		return nil, err
	}
	// The folder itself is locked. A file system that locks none, as NFS, lets
	// pulls of one repository disturb each other; they then fail, and a rerun helps.
	l := flock.New(t.base, flock.SetFlag(os.O_RDONLY))
	if ok, _ := l.TryLockContext(ctx, 20*time.Millisecond); !ok && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for _, d := range []string{t.blobs, t.stage, t.final} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			l.Unlock()
			return nil, err
		}
	}
	return func() {
		t.cleanUp()
		l.Unlock()
	}, nil
}

// install fetches, checks and places one variant.
func (t *target) install(ctx context.Context, o Options, name string, files []client.Entry, res *Result) (lock.Digest, error) {
	meta, _, err := source.Metadata(ctx, o.Source, files)
	if err != nil {
		return "", err
	}
	want := promised(meta)
	sums := make([]source.Sums, len(files))
	fetched := make([]bool, len(files))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(t.parallel)
	for i, e := range files {
		g.Go(func() (err error) {
			sums[i], fetched[i], err = t.fetch(gctx, o, e, want[source.Within(e)])
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return "", err
	}
	byName := map[string]source.Sums{}
	for i, e := range files {
		byName[source.Within(e)] = sums[i]
		if fetched[i] {
			res.Fetched += e.Size
		} else {
			res.Reused += e.Size
		}
	}
	for path := range want {
		if _, ok := byName[path]; !ok {
			return "", fmt.Errorf("%w: %s is listed in the metadata but is not there", ErrMismatch, path)
		}
	}
	for path := range byName {
		if _, ok := want[path]; !ok && want != nil && !manifests.SkipDigest(path) {
			return "", fmt.Errorf("%w: %s is there but not listed in the metadata", ErrMismatch, path)
		}
	}
	d := source.Digest(byName)
	if o.Lock != nil && d != o.Lock.Variants[name] {
		return "", fmt.Errorf("%w: its digest is %s, locked is %s", ErrMismatch, d, o.Lock.Variants[name])
	}
	return d, t.place(name, files, sums)
}

// promised is the SHA-256 in hex that the metadata lists for each file, or nil
// if it lists none that can be compared while streaming.
func promised(m *manifests.Metadata) map[string]string {
	if m.Digest == nil || m.Digest.Algorithm != manifests.SHA256 {
		return nil
	}
	out := map[string]string{}
	for path, b64 := range m.Digest.Files {
		if raw, err := base64.StdEncoding.DecodeString(b64); err == nil {
			out[path] = hex.EncodeToString(raw)
		}
	}
	return out
}

// fetch brings one file into blobs, or finds it there. want is its SHA-256 if
// that is known.
func (t *target) fetch(ctx context.Context, o Options, e client.Entry, want string) (source.Sums, bool, error) {
	check := func(s source.Sums) error {
		if want != "" && s.SHA256 != want {
			return fmt.Errorf("%w: %s has SHA-256 %s, the metadata lists %s", ErrMismatch, source.Within(e), s.SHA256, want)
		}
		return nil
	}
	if tag := e.ETag(); tag != "" {
		local := &source.Folder{Dir: t.blobs}
		if st, err := os.Lstat(filepath.Join(t.blobs, tag)); err == nil && st.Mode().IsRegular() && st.Size() == e.Size {
			have := e
			have.Path = "build/" + tag // a folder without build/ takes its files for variants
			if s, err := source.Copy(ctx, local, have, nil); err == nil {
				return s, false, check(s)
			}
		}
	}
	f, err := renameio.NewPendingFile(filepath.Join(t.blobs, "new"), renameio.WithTempDir(t.blobs), renameio.WithPermissions(0o644))
	if err != nil {
		return source.Sums{}, false, err
	}
	defer f.Cleanup()
	s, err := source.Copy(ctx, o.Source, e, &countingWriter{f, o.Progress})
	if err != nil {
		return s, true, err
	}
	if err := check(s); err != nil {
		return s, true, err
	}
	if err := f.Sync(); err != nil {
		return s, true, err
	}
	if err := f.Close(); err != nil {
		return s, true, err
	}
	return s, true, os.Rename(f.Name(), filepath.Join(t.blobs, s.ETag(e)))
}

type countingWriter struct {
	f *renameio.PendingFile
	p client.Progress
}

// Write implements io.Writer.
func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.f.Write(b)
	if c.p != nil {
		c.p.Add(int64(n))
	}
	return n, err
}

// finish writes the branch's reference.
func (t *target) finish(o Options) error {
	if t.layout == Plain {
		return os.RemoveAll(filepath.Join(t.base, ".pull"))
	}
	err := os.Remove(filepath.Join(t.base, "trees", t.rev+".json"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	branch := o.Branch
	if branch == "" && o.Lock != nil {
		branch = o.Lock.Branch
	}
	if branch == "" {
		return nil
	}
	if err := client.CheckPath(branch); err != nil {
		return err
	}
	ref := filepath.Join(t.base, "refs", filepath.FromSlash(branch))
	if err := os.MkdirAll(filepath.Dir(ref), 0o755); err != nil {
		return err
	}
	return renameio.WriteFile(ref, []byte(t.rev), 0o644)
}

func (t *target) cleanUp() {
	if t.layout == Cache {
		_ = os.RemoveAll(filepath.Join(t.base, ".pull"))
	}
}
