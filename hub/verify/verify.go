// Package verify holds what is published or installed against what was
// locked, and names every difference.
//
// It believes nothing that it has not hashed itself. A file is right if its
// bytes have the digest that the variant's metadata lists; a variant is right
// if its digest, which covers the metadata, is the locked one.
package verify

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/hub/source"
	"github.com/thox-ai/thoxbuild/manifests"
)

// Kind is a way in which something is not as locked. The values are stable.
type Kind string

// The kinds of problems.
const (
	EditedLock      Kind = "edited-lock"
	MovedBranch     Kind = "moved-branch"
	MissingRevision Kind = "missing-revision"
	MissingVariant  Kind = "missing-variant"
	AddedVariant    Kind = "added-variant"
	ChangedVariant  Kind = "changed-variant"
	SwappedFile     Kind = "swapped-file"
	MissingFile     Kind = "missing-file"
	ExtraFile       Kind = "extra-file"
	BadMetadata     Kind = "bad-metadata"
	NoDigest        Kind = "no-digest"
	BadSignature    Kind = "bad-signature"
)

// Problem is one finding.
type Problem struct {
	Kind    Kind   `json:"kind"`
	Variant string `json:"variant,omitempty"`
	// File is relative to the variant.
	File string `json:"file,omitempty"`
	// Message says what was expected, what is there and what it means.
	Message string `json:"message"`
}

// String prints the problem on one line.
func (p Problem) String() string {
	where := string(p.Kind)
	if p.Variant != "" {
		where += ": " + p.Variant
		if p.File != "" {
			where += "/" + p.File
		}
	}
	return where + ": " + p.Message
}

// Report is the outcome of a verification.
type Report struct {
	Source   string                 `json:"source"`
	Revision string                 `json:"revision,omitempty"`
	Variants map[string]lock.Digest `json:"variants"`
	Problems []Problem              `json:"problems"`
	// Notes are worth knowing and no problems.
	Notes []string `json:"notes,omitempty"`
	// Files and Bytes count what was hashed.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// OK reports whether nothing is wrong.
func (r *Report) OK() bool { return len(r.Problems) == 0 }

func (r *Report) add(k Kind, variant, file, format string, args ...any) {
	r.Problems = append(r.Problems, Problem{k, variant, file, fmt.Sprintf(format, args...)})
}

// Options say what to hold a source against. All are optional.
type Options struct {
	// Lock is what was locked.
	Lock *lock.Kernel
	// LockErr is what reading the lock file reported; ErrEdited becomes a
	// problem.
	LockErr error
	// KernelsLock must agree with Lock where both name the repository.
	KernelsLock *manifests.Lock
	// Variants limits the check to some variants; the others are neither
	// missing nor added.
	Variants []string
	// Installed says that only part of the locked variants need be there, as
	// in a cache that holds the one that fits.
	Installed bool
	// Signature checks a variant's signature over the exact metadata bytes;
	// bundle is nil if there is none.
	Signature func(ctx context.Context, variant string, metadata, bundle []byte) error
}

// Run verifies a source. The error is about not being able to look; what was
// found wrong is in the report.
func Run(ctx context.Context, s source.Source, o Options) (*Report, error) {
	r := &Report{Source: s.String(), Revision: s.Revision(), Variants: map[string]lock.Digest{}, Problems: []Problem{}}
	r.checkLocks(s, o)
	files, err := s.Files(ctx)
	if errors.Is(err, client.ErrRevisionNotFound) || errors.Is(err, fs.ErrNotExist) {
		r.add(MissingRevision, "", "", "%s is not there: %v", s, err)
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	variants := source.Variants(files)
	for _, name := range slices.Sorted(maps.Keys(variants)) {
		if len(o.Variants) > 0 && !slices.Contains(o.Variants, name) {
			continue
		}
		if err := r.variant(ctx, s, name, variants[name], o); err != nil {
			return nil, fmt.Errorf("verify %s of %s: %w", name, s, err)
		}
	}
	r.compareLock(variants, o)
	if h, ok := s.(source.Mover); ok && o.Lock != nil && o.Lock.Branch != "" {
		if err := r.branch(ctx, h, variants, o.Lock); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// checkLocks compares the lock files with themselves and each other.
func (r *Report) checkLocks(s source.Source, o Options) {
	if errors.Is(o.LockErr, lock.ErrEdited) {
		r.add(EditedLock, "", "", "%v", o.LockErr)
	}
	if o.Lock == nil {
		return
	}
	if rev := s.Revision(); rev != "" && rev != o.Lock.Revision {
		r.add(MovedBranch, "", "", "this is revision %s, locked is %s", rev, o.Lock.Revision)
	}
	if o.KernelsLock == nil {
		return
	}
	for _, k := range o.KernelsLock.Current {
		v := k.Dependency.Version
		if k.Dependency.RepoID == o.Lock.Repo && v != nil && o.Lock.Branch == fmt.Sprintf("v%d", *v) && k.Commit != o.Lock.Revision {
			r.add(EditedLock, "", "", "%s pins %s to %s, %s to %s", manifests.LockFile, k.Dependency, k.Commit, lock.FileName, o.Lock.Revision)
		}
	}
	for _, k := range o.KernelsLock.Legacy {
		if k.RepoID == o.Lock.Repo && k.SHA != o.Lock.Revision {
			r.add(EditedLock, "", "", "%s pins %s to %s, %s to %s", manifests.LockFile, k.RepoID, k.SHA, lock.FileName, o.Lock.Revision)
		}
	}
}

// variant hashes one variant and compares it with its own metadata.
func (r *Report) variant(ctx context.Context, s source.Source, name string, files []client.Entry, o Options) error {
	sums := map[string]source.Sums{}
	for _, e := range files {
		got, err := source.Copy(ctx, s, e, nil)
		if errors.Is(err, source.ErrCorrupt) {
			r.add(SwappedFile, name, source.Within(e), "%v", err)
		} else if err != nil {
			return err
		}
		sums[source.Within(e)] = got
		r.Files++
		r.Bytes += e.Size
	}
	r.Variants[name] = source.Digest(sums)
	meta, raw, err := source.Metadata(ctx, s, files)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.add(MissingFile, name, manifests.MetadataFile, "the variant has no metadata, so nothing says what its files should be")
		return nil
	case errors.Is(err, source.ErrCorrupt):
		return nil // named above
	case err != nil && raw == nil:
		return err
	case err != nil:
		r.add(BadMetadata, name, manifests.MetadataFile, "%v", err)
		return nil
	}
	if o.Signature != nil {
		if err := r.signature(ctx, s, name, files, raw, o); err != nil {
			return err
		}
	}
	if meta.Digest == nil {
		r.add(NoDigest, name, manifests.MetadataFile, "the metadata lists no digests, so single files can't be checked")
		return nil
	}
	return r.digest(ctx, s, name, files, meta.Digest, sums)
}

// digest compares the files with the metadata's list.
func (r *Report) digest(ctx context.Context, s source.Source, name string, files []client.Entry, want *manifests.Digest, sums map[string]source.Sums) error {
	got := &manifests.Digest{Algorithm: want.Algorithm, Files: map[string]string{}}
	for _, e := range files {
		path := source.Within(e)
		if manifests.SkipDigest(path) {
			continue
		}
		if want.Algorithm == manifests.SHA256 {
			raw, err := hex.DecodeString(sums[path].SHA256)
			if err != nil {
				return err
			}
			got.Files[path] = base64.StdEncoding.EncodeToString(raw)
			continue
		}
		body, err := s.Open(ctx, e)
		if err != nil {
			return err
		}
		got.Files[path], err = manifests.HashReader(body, want.Algorithm)
		_ = body.Close()
		if err != nil {
			return err
		}
	}
	for _, d := range want.Compare(got) {
		kind := map[manifests.DifferenceKind]Kind{
			manifests.FileMismatch: SwappedFile, manifests.FileMissing: MissingFile, manifests.UnknownFile: ExtraFile,
		}[d.Kind]
		if !slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Kind == kind && p.Variant == name && p.File == d.File }) {
			r.add(kind, name, d.File, "%s", strings.TrimPrefix(d.String(), d.File+": "))
		}
	}
	return nil
}

func (r *Report) signature(ctx context.Context, s source.Source, name string, files []client.Entry, metadata []byte, o Options) error {
	var bundle []byte
	for _, e := range files {
		if source.Within(e) == manifests.SignatureFile && e.Size <= 1<<20 {
			var buf strings.Builder
			if _, err := source.Copy(ctx, s, e, &buf); err != nil {
				return err
			}
			bundle = []byte(buf.String())
		}
	}
	if err := o.Signature(ctx, name, metadata, bundle); err != nil {
		r.add(BadSignature, name, manifests.SignatureFile, "%v", err)
	}
	return nil
}

// compareLock compares the variants' digests with the locked ones.
func (r *Report) compareLock(variants map[string][]client.Entry, o Options) {
	if o.Lock == nil {
		return
	}
	wanted := func(name string) bool { return len(o.Variants) == 0 || slices.Contains(o.Variants, name) }
	for _, name := range slices.Sorted(maps.Keys(o.Lock.Variants)) {
		want := o.Lock.Variants[name]
		got, ok := r.Variants[name]
		switch {
		case !wanted(name):
		case !ok && !o.Installed:
			r.add(MissingVariant, name, "", "locked as %s, but it is not there", want)
		case ok && got != want:
			r.add(ChangedVariant, name, "", "its digest is %s, locked is %s; it is not the variant that was reviewed, or the lock was edited", got, want)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(variants)) {
		if _, ok := o.Lock.Variants[name]; !ok && wanted(name) {
			r.add(AddedVariant, name, "", "the lock does not name it; it was added later or elsewhere")
		}
	}
}

// branch reports whether the branch still is where it was locked and, if not,
// which variants its head has on top or without.
func (r *Report) branch(ctx context.Context, h source.Mover, locked map[string][]client.Entry, k *lock.Kernel) error {
	at, head, err := h.Head(ctx, k.Branch)
	if err != nil {
		return err
	}
	if head == "" {
		r.add(MovedBranch, "", "", "branch %s is gone; locked is %s", k.Branch, k.Revision)
		return nil
	}
	if head == k.Revision || at == nil {
		return nil
	}
	r.add(MovedBranch, "", "", "branch %s is at %s, locked is %s", k.Branch, head, k.Revision)
	files, err := at.Files(ctx)
	if err != nil {
		return err
	}
	now := source.Variants(files)
	for _, name := range slices.Sorted(maps.Keys(now)) {
		old, ok := locked[name]
		switch {
		case !ok:
			r.add(AddedVariant, name, "", "added to branch %s after the lock, at or before %s", k.Branch, head)
		case !slices.EqualFunc(old, now[name], func(a, b client.Entry) bool { return a.Path == b.Path && a.ETag() == b.ETag() }):
			r.add(ChangedVariant, name, "", "branch %s holds other files for it than the locked revision", k.Branch)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(locked)) {
		if _, ok := now[name]; !ok {
			r.add(MissingVariant, name, "", "removed from branch %s after the lock", k.Branch)
		}
	}
	return nil
}
