package store

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// GCOptions tune GC.
type GCOptions struct {
	// Grace spares what was written so recently that a commit may still be on
	// its way to name it; 24 h by default, negative for none.
	Grace time.Duration
	// Xorbs removes the chunks that uploads have left. Each repository's chunk
	// store gets a new identity by that, and clients send their chunks again.
	Xorbs bool
}

// GCReport is what GC has freed.
type GCReport struct {
	Objects int   `json:"objects"` // git objects dropped
	LFS     int   `json:"lfs"`     // LFS objects dropped
	Xorbs   int   `json:"xorbs"`
	Dirs    int   `json:"dirs"` // leftovers of deleted repositories and uploads
	Bytes   int64 `json:"bytes"`
}

// GC drops what no reference reaches and packs the rest of each repository
// together. Readers are not disturbed; commits wait. A process that dies on
// the way leaves more than is needed, never less.
func (s *Store) GC(ctx context.Context, opts GCOptions) (*GCReport, error) {
	if opts.Grace == 0 {
		opts.Grace = 24 * time.Hour
	}
	old := time.Now().Add(-max(opts.Grace, 0))
	rep := &GCReport{}
	if err := s.sweepDirs(rep); err != nil {
		return rep, err
	}
	for _, info := range s.List() {
		r, err := s.RepoByUID(info.UID)
		if errors.Is(err, ErrRepoNotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return rep, err
		}
		if err := r.gc(ctx, opts, old, rep); err != nil {
			return rep, err
		}
	}
	return rep, nil
}

// sweepDirs removes what a deletion or a creation that died has left.
func (s *Store) sweepDirs(rep *GCReport) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ents, err := os.ReadDir(filepath.Join(s.dir, "repos"))
	if err != nil {
		return err
	}
	for _, e := range ents {
		if s.index.findUID(e.Name()) >= 0 {
			continue
		}
		rep.Dirs++
		if err := os.RemoveAll(s.repoDir(e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (r *Repo) gc(ctx context.Context, opts GCOptions, old time.Time, rep *GCReport) error {
	r.keepMu.Lock() // no commit is under way from here on
	defer r.keepMu.Unlock()
	live, err := r.reach(ctx, nil)
	if err != nil {
		return err // a damaged repository is not cleaned
	}
	if err := r.repack(ctx, live, old, rep); err != nil {
		return err
	}
	err = r.eachLFS(func(path, sha string, size int64) error {
		if _, ok := live.lfs[sha]; ok || !olderThan(path, old) {
			return ctx.Err()
		}
		rep.LFS++
		rep.Bytes += size
		return r.s.disk.remove(path)
	})
	if err != nil {
		return err
	}
	parts, err := filepath.Glob(filepath.Join(r.dir, "lfs", "parts", "*"))
	if err != nil {
		return err
	}
	for _, p := range parts {
		if olderThan(p, old) {
			gone, err := r.dropUpload(p)
			if err != nil {
				return err
			}
			if gone {
				rep.Dirs++
			}
		}
	}
	if !opts.Xorbs {
		return nil
	}
	names, err := filepath.Glob(filepath.Join(r.dir, "xorbs", "*"))
	if err != nil || len(names) == 0 {
		return err
	}
	// First the identity, then the chunks: the other way round, a client could
	// rely on a chunk that is gone.
	if err := r.s.updateInfo(r.uid, func(i *Info) { i.CAS = randomHex(8) }); err != nil {
		return err
	}
	for _, name := range names {
		if fi, err := os.Stat(name); err == nil {
			rep.Bytes += fi.Size()
		}
		rep.Xorbs++
		if err := r.s.disk.remove(name); err != nil {
			return err
		}
	}
	return nil
}

// repack writes one pack of all that is reached, and then removes the others.
// While unreached objects are young, nothing is repacked.
func (r *Repo) repack(ctx context.Context, live *reached, old time.Time, rep *GCReport) error {
	packs := r.objs.list()
	total := 0
	for _, p := range packs {
		total += p.n
		if !olderThan(p.path, old) {
			return nil
		}
	}
	if len(packs) <= 1 && total == len(live.objects) {
		return nil
	}
	w, err := newPackWriter(r.s.disk)
	if err != nil {
		return err
	}
	defer w.t.discard()
	for id, kind := range live.objects {
		if err := ctx.Err(); err != nil {
			return err
		}
		data, err := r.objs.read(id, kind)
		if err != nil {
			return err
		}
		if _, err := w.add(kind, data); err != nil {
			return err
		}
	}
	name, err := w.finish(r.objs.dir)
	if err != nil {
		return err
	}
	rep.Objects += total - len(live.objects)
	for _, p := range packs {
		if filepath.Base(p.path) == name+".pack" {
			continue
		}
		if fi, err := os.Stat(p.path); err == nil {
			rep.Bytes += fi.Size()
		}
		// The index goes first: a pack without one is no pack.
		for _, path := range []string{p.path[:len(p.path)-len(".pack")] + ".idx", p.path} {
			if err := r.s.disk.remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	// Packs that died between their two files have no index.
	lone, err := filepath.Glob(filepath.Join(r.objs.dir, "*.pack"))
	if err != nil {
		return err
	}
	for _, p := range lone {
		if _, err := os.Stat(p[:len(p)-len(".pack")] + ".idx"); errors.Is(err, fs.ErrNotExist) {
			if err := r.s.disk.remove(p); err != nil {
				return err
			}
		}
	}
	return r.objs.reload()
}

func olderThan(path string, t time.Time) bool {
	fi, err := os.Stat(path)
	return err == nil && !fi.ModTime().After(t)
}
