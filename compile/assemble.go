package compile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/compile/action"
	"github.com/thox-ai/thoxbuild/manifests"
)

// assembleAll puts the folder of each variant together whose actions
// succeeded.
func (r *runner) assembleAll(ctx context.Context) {
	locked := false
	for _, vp := range r.p.variants {
		v := VariantResult{Name: vp.name, Ops: vp.ops, Dir: filepath.Join(r.p.cfg.OutDir, vp.name)}
		v.Err = r.variantError(vp)
		if v.Err == nil {
			v.Err = ctx.Err()
		}
		if v.Err == nil {
			files, metadata, err := r.p.contents(vp, r.results, r.open)
			switch {
			case err != nil:
				v.Err = err
			case r.p.unchanged(v.Dir, files):
				v.Cached = true
			default:
				if !locked {
					unlock, err := r.lockOut(ctx)
					if err != nil {
						v.Err = err
						break
					}
					defer unlock()
					locked = true
				}
				v.Err = r.assemble(v.Dir, files, vp, metadata)
			}
			if v.Err == nil {
				v.Err = r.storeReport(vp, metadata)
			}
			if v.Err != nil {
				v.Err = fmt.Errorf("assemble %s: %w", vp.name, v.Err)
				r.errs = append(r.errs, v.Err)
			}
		}
		r.res.Variants = append(r.res.Variants, v)
		r.event(Event{Type: EventVariant, Variant: &v, Err: v.Err})
	}
}

// variantError is why a variant's actions did not all succeed.
func (r *runner) variantError(vp *variantPlan) error {
	for _, a := range vp.last {
		switch {
		case r.failed[a.index] != nil:
			return r.failed[a.index]
		case r.results[a.index] == nil:
			return errNotReached
		}
	}
	return nil
}

// errNotReached is a variant whose actions were not started because the run
// stopped at another's failure.
var errNotReached = errors.New("not built: the run stopped at an earlier failure")

// contents are the files of a variant's folder, metadata.json last.
func (p *Plan) contents(vp *variantPlan, results []*action.Result, open func(action.Digest) (io.ReadCloser, error)) (files []packageFile, metadata []byte, err error) {
	files = slices.Clone(vp.files)
	if vp.library != nil {
		lib, ok := results[vp.library.index].Output(libraryOut)
		if !ok {
			return nil, nil, fmt.Errorf("the link made no library")
		}
		files = append(files, packageFile{vp.libraryName(), lib.Digest})
	}
	m := vp.metadata
	m.Digest = digestFiles(files)
	devices, read, err := vp.devicesOf(results, open)
	if err != nil {
		return nil, nil, err
	}
	if read {
		m.Backend.Archs = devices
	}
	if m.Provenance != nil {
		with := *m.Provenance
		with.Kernel = p.commit
		m.Provenance = &with
	}
	if metadata, err = m.Print(); err != nil {
		return nil, nil, err
	}
	return append(files, packageFile{metadataFile, action.DigestOf(metadata)}), metadata, nil
}

// unchanged reports whether a folder holds exactly these files. Bytecode that
// Python wrote beside them and a signature do not count.
func (p *Plan) unchanged(dir string, files []packageFile) bool {
	want := map[string]action.Digest{}
	for _, f := range files {
		want[f.path] = f.digest
	}
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if e.Name() == "__pycache__" {
				return fs.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		d, listed := want[rel]
		switch {
		case !e.Type().IsRegular():
			return fmt.Errorf("%s is no regular file", rel)
		case !listed && manifests.SkipDigest(rel):
			return nil
		case !listed:
			return fmt.Errorf("%s does not belong here", rel)
		}
		got, err := p.cfg.Index.Digest(name)
		if err != nil || got != d {
			return fmt.Errorf("%s has changed", rel)
		}
		delete(want, rel)
		return nil
	})
	return err == nil && len(want) == 0
}

// assemble writes a variant's folder beside the old one and puts it in its
// place in one step.
func (r *runner) assemble(dir string, files []packageFile, vp *variantPlan, metadata []byte) (err error) {
	tmp, err := os.MkdirTemp(filepath.Dir(dir), tempPrefix+"*")
	if err != nil {
		return err
	}
	defer func() {
		if rerr := os.RemoveAll(tmp); err == nil {
			err = rerr
		}
	}()
	texts := map[action.Digest][]byte{action.DigestOf(metadata): metadata}
	for _, t := range vp.texts {
		texts[action.DigestOf(t)] = t
	}
	dirs := []string{tmp}
	var written []os.FileInfo
	for _, f := range files {
		to := filepath.Join(tmp, filepath.FromSlash(f.path))
		if parent := filepath.Dir(to); !slices.Contains(dirs, parent) {
			if err := os.MkdirAll(parent, 0o755); err != nil {
				return err
			}
			dirs = append(dirs, parent)
		}
		var src io.ReadCloser
		if t, ok := texts[f.digest]; ok {
			src = io.NopCloser(strings.NewReader(string(t)))
		} else if src, err = r.open(f.digest); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
		fi, err := writeChecked(to, src, f.digest)
		if err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
		written = append(written, fi)
	}
	for _, d := range dirs {
		if err := os.Chmod(d, 0o755); err != nil { // the umask has no say in what is published
			return err
		}
		if err := syncDir(d); err != nil {
			return err
		}
	}
	published := r.p.cfg.Index.Now()
	if err := replaceDir(tmp, dir); err != nil {
		return err
	}
	for i, f := range files {
		r.p.cfg.Index.Wrote(filepath.Join(dir, filepath.FromSlash(f.path)), written[i], published, f.digest)
	}
	return syncDir(filepath.Dir(dir))
}

// writeChecked copies a file whose digest is known, and returns what the file
// system says of the copy.
func writeChecked(to string, src io.ReadCloser, want action.Digest) (os.FileInfo, error) {
	defer src.Close()
	w, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	got, err := action.Copy(w, src)
	if err != nil {
		return nil, err
	}
	if got != want {
		return nil, action.ErrChanged
	}
	if err := w.Chmod(0o644); err != nil {
		return nil, err
	}
	if err := w.Sync(); err != nil {
		return nil, err
	}
	fi, err := w.Stat()
	if err != nil {
		return nil, err
	}
	return fi, w.Close()
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
