package manifests

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// LockFile is the name of both shapes of the lock file.
const LockFile = "kernels.lock"

// maxLockBytes bounds a lock file.
const maxLockBytes = 16 << 20

// Lock is a kernels.lock in one of its two shapes, which share a name and are
// unreadable to each other's readers. Exactly one field is set; an empty file
// is of the current shape.
type Lock struct {
	Current []LockedKernel
	Legacy  []LegacyLock
}

// LockedKernel is an entry of the current shape (kernels 0.17): what was
// asked for and the commit that it resolved to.
type LockedKernel struct {
	Dependency KernelDependency
	// Commit is 40 or 64 lower-case hex digits.
	Commit string
	// Hash is the optional SRI hash of the Nix flavour.
	Hash string
}

// LegacyLock is an entry of the shape up to kernels 0.16.
type LegacyLock struct {
	RepoID string
	SHA    string
	// Variants are in the order of the file.
	Variants []LegacyVariant
}

// LegacyVariant is the hash of one variant's files.
type LegacyVariant struct {
	Name string
	// Hash is "sha256-" and 64 hex digits; HashType is git_lfs_concat.
	Hash, HashType string
}

var (
	anyHexRE     = regexp.MustCompile(`^([0-9a-fA-F]{40}|[0-9a-fA-F]{64})$`)
	sriRE        = regexp.MustCompile(`^sha256-[A-Za-z0-9+/]{43}=$`)
	legacyHashRE = regexp.MustCompile(`^sha256-[0-9a-f]{64}$`)
)

const gitLFSConcat = "git_lfs_concat"

// ParseLock reads a kernels.lock. The keys of the first element tell the
// shape; a file that mixes both is an error.
func ParseLock(data []byte) (*Lock, error) {
	if len(data) > maxLockBytes {
		return nil, fmt.Errorf("%s: %d bytes: expected at most %d", LockFile, len(data), maxLockBytes)
	}
	var items []json.RawMessage
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&items); err != nil {
		var te *json.UnmarshalTypeError
		if errors.As(err, &te) {
			return nil, fmt.Errorf("%s: expected an array of kernels, got %s", LockFile, te.Value)
		}
		return nil, fmt.Errorf("%s: %w", LockFile, jsonError(data, err))
	}
	if items == nil || dec.More() {
		return nil, fmt.Errorf("%s: expected one array of kernels", LockFile)
	}
	l := &Lock{}
	var err error
	if len(items) > 0 {
		first, ferr := jsonObject(items[0])
		if ferr != nil {
			return nil, fmt.Errorf("%s: [0]: %w", LockFile, ferr)
		}
		if slices.ContainsFunc(first, func(m jsonMember) bool { return m.Key == "repo_id" }) {
			l.Legacy, err = parseLegacy(items)
			return l.orError(err)
		}
	}
	l.Current, err = parseCurrent(items)
	return l.orError(err)
}

func (l *Lock) orError(err error) (*Lock, error) {
	if err != nil {
		return nil, fmt.Errorf("%s: %w", LockFile, err)
	}
	return l, nil
}

func parseCurrent(items []json.RawMessage) ([]LockedKernel, error) {
	out := []LockedKernel{}
	for i, item := range items {
		f := openJSON(fmt.Sprintf("[%d]", i), item)
		var k LockedKernel
		if raw := f.take("dependency", true); raw != nil {
			d := openJSON(f.name("dependency"), raw)
			k.Dependency = readDependency(d)
			d.noMore()
			f.adopt(d)
		}
		if raw := f.take("lock", true); raw != nil {
			d := openJSON(f.name("lock"), raw)
			k.Commit, k.Hash = strings.ToLower(d.text("commit", true)), d.text("hash", false)
			d.noMore()
			f.adopt(d)
		}
		f.noMore()
		if f.err == nil {
			f.err = k.validate(f.where)
		}
		if f.err != nil {
			return nil, f.err
		}
		out = append(out, k)
	}
	return out, duplicateDependency(out)
}

func (k LockedKernel) validate(where string) error {
	if err := k.Dependency.validate(); err != nil {
		return fmt.Errorf("%s.dependency: %w", where, err)
	}
	if !anyHexRE.MatchString(k.Commit) {
		return fmt.Errorf("%s.lock.commit: %q: expected 40 or 64 hex digits", where, k.Commit)
	}
	if k.Hash != "" && !sriRE.MatchString(k.Hash) {
		return fmt.Errorf("%s.lock.hash: %q: expected \"sha256-\" and padded base64", where, k.Hash)
	}
	return nil
}

func duplicateDependency(list []LockedKernel) error {
	seen := map[string]bool{}
	for i, k := range list {
		id := k.Dependency.String()
		if seen[id] {
			return fmt.Errorf("[%d]: %s is locked twice", i, id)
		}
		seen[id] = true
	}
	return nil
}

// String prints "owner/name v2" or "owner/name @revision".
func (d KernelDependency) String() string {
	if d.Version != nil {
		return fmt.Sprintf("%s v%d", d.RepoID, *d.Version)
	}
	return d.RepoID + " @" + d.Revision
}

// compareDependencies orders by repository, then versions by number before
// revisions by text.
func compareDependencies(a, b KernelDependency) int {
	kind := func(d KernelDependency) (int, int) {
		if d.Version != nil {
			return 0, *d.Version
		}
		return 1, 0
	}
	ak, av := kind(a)
	bk, bv := kind(b)
	return cmp.Or(cmp.Compare(a.RepoID, b.RepoID), cmp.Compare(ak, bk), cmp.Compare(av, bv), cmp.Compare(a.Revision, b.Revision))
}

func parseLegacy(items []json.RawMessage) ([]LegacyLock, error) {
	out := []LegacyLock{}
	for i, item := range items {
		f := openJSON(fmt.Sprintf("[%d]", i), item)
		l := LegacyLock{RepoID: f.text("repo_id", true), SHA: f.text("sha", true)}
		if raw := f.take("variants", true); raw != nil {
			vs := openJSON(f.name("variants"), raw)
			f.adopt(vs)
			for _, m := range vs.rest {
				v := openJSON(f.name("variants")+"."+m.Key, m.Value)
				l.Variants = append(l.Variants, LegacyVariant{m.Key, v.text("hash", true), v.text("hash_type", true)})
				v.noMore()
				f.adopt(v)
			}
		}
		f.noMore()
		if f.err == nil {
			f.err = l.validate(f.where)
		}
		if f.err != nil {
			return nil, f.err
		}
		out = append(out, l)
	}
	return out, nil
}

func (l LegacyLock) validate(where string) error {
	if !repoIDRE.MatchString(l.RepoID) {
		return fmt.Errorf("%s.repo_id: %q: expected <owner>/<name>", where, l.RepoID)
	}
	if !commitRE.MatchString(l.SHA) {
		return fmt.Errorf("%s.sha: %q: expected 40 or 64 lower-case hex digits", where, l.SHA)
	}
	for _, v := range l.Variants {
		if !legacyHashRE.MatchString(v.Hash) || v.HashType != gitLFSConcat {
			return fmt.Errorf("%s.variants.%s: %q of type %q: expected \"sha256-\" and 64 hex digits of type %s", where, v.Name, v.Hash, v.HashType, gitLFSConcat)
		}
	}
	return nil
}

// Print writes the lock in the layout of its producer: two spaces, no newline
// at the end. The current shape is sorted; the legacy one keeps its order.
func (l *Lock) Print() ([]byte, error) {
	items := []json.RawMessage{}
	if l.Legacy != nil {
		if l.Current != nil {
			return nil, fmt.Errorf("%s: the two shapes can't share a file", LockFile)
		}
		for i, e := range l.Legacy {
			if err := e.validate(fmt.Sprintf("[%d]", i)); err != nil {
				return nil, fmt.Errorf("%s: %w", LockFile, err)
			}
			items = append(items, e.print())
		}
		return indentJSON(encodeJSON(items)), nil
	}
	sorted := slices.SortedFunc(slices.Values(l.Current), func(a, b LockedKernel) int { return compareDependencies(a.Dependency, b.Dependency) })
	if err := duplicateDependency(sorted); err != nil {
		return nil, fmt.Errorf("%s: %w", LockFile, err)
	}
	for i, k := range sorted {
		if err := k.validate(fmt.Sprintf("[%d]", i)); err != nil {
			return nil, fmt.Errorf("%s: %w", LockFile, err)
		}
		var w, lock jsonWriter
		lock.add("commit", strings.ToLower(k.Commit))
		lock.optional("hash", k.Hash)
		w.add("dependency", printDependency(k.Dependency))
		w.add("lock", lock.object())
		items = append(items, w.object())
	}
	return indentJSON(encodeJSON(items)), nil
}

func (l LegacyLock) print() json.RawMessage {
	var w, vs jsonWriter
	for _, v := range l.Variants {
		var h jsonWriter
		h.add("hash", v.Hash)
		h.add("hash_type", v.HashType)
		vs.add(v.Name, h.object())
	}
	w.add("repo_id", l.RepoID)
	w.add("sha", l.SHA)
	w.add("variants", vs.object())
	return w.object()
}

// Set adds an entry or replaces the one for the same dependency.
func (l *Lock) Set(k LockedKernel) {
	for i, old := range l.Current {
		if compareDependencies(old.Dependency, k.Dependency) == 0 {
			l.Current[i] = k
			return
		}
	}
	l.Current = append(l.Current, k)
}

// LegacyFile is a file of a variant as the Hub lists it: its path inside the
// variant and the SHA-256 of its content if it is stored in LFS, else the git
// blob's SHA-1, both in hex.
type LegacyFile struct {
	Path string
	OID  string
}

// LegacyHash computes a variant's git_lfs_concat hash: SHA-256 over the
// sorted pairs of path and raw object id, without separators.
func LegacyHash(files []LegacyFile) (string, error) {
	h := sha256.New()
	sorted := slices.SortedFunc(slices.Values(files), func(a, b LegacyFile) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.OID, b.OID))
	})
	for _, f := range sorted {
		if SkipDigest(f.Path) && f.Path != MetadataFile && f.Path != SignatureFile {
			continue
		}
		raw, err := hex.DecodeString(f.OID)
		if err != nil || len(raw) != 20 && len(raw) != 32 {
			return "", fmt.Errorf("%s: object id %q: expected 40 or 64 hex digits", f.Path, f.OID)
		}
		h.Write([]byte(f.Path))
		h.Write(raw)
	}
	return "sha256-" + hex.EncodeToString(h.Sum(nil)), nil
}
