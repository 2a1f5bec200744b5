package lock

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/manifests"
)

// FileName is the usual name of the lock file.
const FileName = "thoxbuild.lock"

// fileVersion is raised when a reader of the old form would misread the new.
const fileVersion = 1

// maxFile bounds what is read: a hundred kernels of a hundred variants are
// about a megabyte.
const maxFile = 16 << 20

// File is a thoxbuild.lock.
type File struct {
	// Kernels are sorted by repository, type and branch.
	Kernels []Kernel
}

// Kernel pins one published revision of a kernel.
type Kernel struct {
	// Repo is NAMESPACE/NAME on a Hub, or oci://HOST/REPO in a registry.
	Repo string `json:"repo"`
	// Type is kernel or model, empty for a registry.
	Type client.RepoType `json:"type,omitempty"`
	// Branch is where the revision was published; for a registry the tag.
	Branch string `json:"branch,omitempty"`
	// Revision is the commit, or sha256:... of an image index.
	Revision string `json:"revision"`
	// Published is the time of SOURCE_DATE_EPOCH in RFC 3339, or empty.
	Published string `json:"published,omitempty"`
	// Variants maps each variant's name to its digest.
	Variants map[string]Digest `json:"variants"`
}

// ErrEdited says that a lock file's checksum does not fit its content.
var ErrEdited = errors.New("the lock file was edited")

type fileJSON struct {
	Version  int      `json:"version"`
	Kernels  []Kernel `json:"kernels"`
	Checksum string   `json:"checksum"`
}

func compare(a, b Kernel) int {
	return cmp.Or(cmp.Compare(a.Repo, b.Repo), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Branch, b.Branch))
}

func checksum(kernels []Kernel) (string, error) {
	b, err := json.Marshal(kernels)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// Print writes the file. Equal contents give equal bytes.
func (f *File) Print() ([]byte, error) {
	kernels := slices.SortedFunc(slices.Values(f.Kernels), compare)
	if kernels == nil {
		kernels = []Kernel{}
	}
	for i := range kernels {
		if err := kernels[i].validate(); err != nil {
			return nil, fmt.Errorf("%s: %w", FileName, err)
		}
		if i > 0 && compare(kernels[i-1], kernels[i]) == 0 {
			return nil, fmt.Errorf("%s: %s %s is there twice", FileName, kernels[i].Repo, kernels[i].Branch)
		}
	}
	sum, err := checksum(kernels)
	if err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(fileJSON{fileVersion, kernels, sum}, "", "  ")
	return append(b, '\n'), err
}

// Parse reads a lock file strictly. With ErrEdited the file is returned too,
// for tools that go on to say what else is wrong.
func Parse(data []byte) (*File, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: larger than %d bytes", FileName, maxFile)
	}
	var j fileJSON
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&j); err != nil {
		return nil, fmt.Errorf("%s: %w", FileName, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: something follows the JSON object", FileName)
	}
	if j.Version != fileVersion {
		return nil, fmt.Errorf("%s: version %d; this thoxbuild reads version %d", FileName, j.Version, fileVersion)
	}
	f := &File{Kernels: j.Kernels}
	for i, k := range j.Kernels {
		if err := k.validate(); err != nil {
			return nil, fmt.Errorf("%s: %w", FileName, err)
		}
		if i > 0 && compare(j.Kernels[i-1], k) >= 0 {
			return nil, fmt.Errorf("%s: entries are not sorted or one is there twice, at %s %s", FileName, k.Repo, k.Branch)
		}
	}
	kernels := j.Kernels
	if kernels == nil {
		kernels = []Kernel{}
	}
	sum, err := checksum(kernels)
	if err != nil {
		return nil, err
	}
	if sum != j.Checksum {
		return f, fmt.Errorf("%s: %w: its checksum is %q, its content's %s; restore it or publish again", FileName, ErrEdited, j.Checksum, sum)
	}
	return f, nil
}

var imageDigest = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func (k Kernel) validate() error {
	if strings.HasPrefix(k.Repo, "oci://") {
		if !imageDigest.MatchString(k.Revision) {
			return fmt.Errorf("%s: revision %q: expected sha256: and 64 hex digits", k.Repo, k.Revision)
		}
		if k.Type != "" {
			return fmt.Errorf("%s: a registry's entry has no type", k.Repo)
		}
	} else {
		if _, err := client.ParseRepo(k.Type, k.Repo); err != nil {
			return err
		}
		if k.Type == "" {
			return fmt.Errorf("%s: type is missing", k.Repo)
		}
		if !client.IsCommit(k.Revision) {
			return fmt.Errorf("%s: revision %q: expected a full commit id of 40 hex digits", k.Repo, k.Revision)
		}
	}
	if k.Published != "" {
		if t, err := time.Parse(time.RFC3339, k.Published); err != nil || t.UTC().Format(time.RFC3339) != k.Published {
			return fmt.Errorf("%s: published %q: expected RFC 3339 in UTC", k.Repo, k.Published)
		}
	}
	for name, d := range k.Variants {
		if _, err := manifests.ParseVariantName(name); err != nil {
			return fmt.Errorf("%s: %w", k.Repo, err)
		}
		if _, err := ParseDigest(string(d)); err != nil {
			return fmt.Errorf("%s: %s: %w", k.Repo, name, err)
		}
	}
	return nil
}

// Find returns the entry for a repository and branch. An empty branch matches
// if there is only one.
func (f *File) Find(repo, branch string) (*Kernel, error) {
	var found []*Kernel
	for i := range f.Kernels {
		if k := &f.Kernels[i]; k.Repo == repo && (branch == "" || k.Branch == branch) {
			found = append(found, k)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, fmt.Errorf("%s does not pin %s %s", FileName, repo, branch)
	}
	return nil, fmt.Errorf("%s pins several branches of %s; say which", FileName, repo)
}

// Set adds an entry or replaces the one for the same repository and branch.
// Variants of the old entry that the new one does not name stay pinned only
// if keep says that they are still there.
func (f *File) Set(k Kernel, keep func(variant string) bool) {
	for i, old := range f.Kernels {
		if compare(old, k) == 0 {
			merged := map[string]Digest{}
			for name, d := range old.Variants {
				if keep != nil && keep(name) {
					merged[name] = d
				}
			}
			for name, d := range k.Variants {
				merged[name] = d
			}
			k.Variants = merged
			f.Kernels[i] = k
			return
		}
	}
	f.Kernels = append(f.Kernels, k)
	slices.SortFunc(f.Kernels, compare)
}

// Load reads a lock file. One that is not there is empty.
func Load(path string) (*File, error) {
	if err := regular(path); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &File{}, nil
	}
	if err != nil {
		return nil, err
	}
	f, err := Parse(data)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return f, err
}

// regular refuses what an update would put a file in the place of: /dev/null,
// which somebody may give who wants no lock.
func regular(path string) error {
	if fi, err := os.Stat(path); err == nil && !fi.Mode().IsRegular() {
		return fmt.Errorf("%s: expected a regular file", path)
	}
	return nil
}

// Update changes a lock file in place: read, change, write beside, rename. A
// lock on a file next to it keeps two updates from losing each other's entry.
func Update(ctx context.Context, path string, change func(*File) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := regular(path); err != nil {
		return err
	}
	fl := flock.New(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".guard"))
	if _, err := fl.TryLockContext(ctx, 50*time.Millisecond); err != nil {
		return fmt.Errorf("wait for %s: %w", path, err)
	}
	defer fl.Unlock()
	f, err := Load(path)
	if err != nil {
		return err
	}
	if err := change(f); err != nil {
		return err
	}
	b, err := f.Print()
	if err != nil {
		return err
	}
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, b) {
		return nil
	}
	return renameio.WriteFile(path, b, 0o644)
}

// PublishTime is the time to record: that of SOURCE_DATE_EPOCH, or none,
// because a clock would make equal publishes unequal.
func PublishTime(getenv func(string) string) (string, error) {
	v := getenv("SOURCE_DATE_EPOCH")
	if v == "" {
		return "", nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 {
		return "", fmt.Errorf("SOURCE_DATE_EPOCH %q: expected seconds since 1970", v)
	}
	return time.Unix(n, 0).UTC().Format(time.RFC3339), nil
}
