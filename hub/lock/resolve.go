package lock

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/manifests"
)

// PyProject reads [tool.kernels.dependencies] of a pyproject.toml: major
// versions by repository, sorted by repository.
func PyProject(data []byte) ([]manifests.KernelDependency, error) {
	var p struct {
		Tool struct {
			Kernels *struct {
				Dependencies map[string]any `toml:"dependencies"`
			} `toml:"kernels"`
		} `toml:"tool"`
	}
	if err := toml.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("pyproject.toml: %w", err)
	}
	if p.Tool.Kernels == nil || p.Tool.Kernels.Dependencies == nil {
		return nil, errors.New("pyproject.toml has no [tool.kernels.dependencies]; add lines such as \"owner/name\" = 1")
	}
	var out []manifests.KernelDependency
	for _, repo := range slices.Sorted(maps.Keys(p.Tool.Kernels.Dependencies)) {
		if _, err := client.ParseRepo(client.Kernel, repo); err != nil {
			return nil, fmt.Errorf("pyproject.toml: tool.kernels.dependencies: %w", err)
		}
		v, ok := p.Tool.Kernels.Dependencies[repo].(int64)
		if !ok || v < 0 || v > 1<<31 {
			return nil, fmt.Errorf("pyproject.toml: tool.kernels.dependencies: %q: expected a major version such as 1, got %v", repo, p.Tool.Kernels.Dependencies[repo])
		}
		n := int(v)
		out = append(out, manifests.KernelDependency{RepoID: repo, Version: &n})
	}
	return out, nil
}

// Resolved is a dependency with the commit that it stands for now.
type Resolved struct {
	Dependency manifests.KernelDependency
	Commit     string
	// Variants are the digests of all variants at that commit.
	Variants map[string]Digest
}

// Locked is the entry for kernels.lock.
func (r Resolved) Locked() manifests.LockedKernel {
	return manifests.LockedKernel{Dependency: r.Dependency, Commit: r.Commit}
}

// Kernel is the entry for thoxbuild.lock.
func (r Resolved) Kernel() Kernel {
	k := Kernel{Repo: r.Dependency.RepoID, Type: client.Kernel, Revision: r.Commit, Variants: r.Variants}
	if r.Dependency.Version != nil {
		k.Branch = branchOf(*r.Dependency.Version)
	}
	return k
}

func branchOf(version int) string { return fmt.Sprintf("v%d", version) }

// Resolve turns dependencies into commits, with the kernels that any of their
// variants depends on. The result is sorted as kernels.lock is. A cycle is an
// error that shows it.
func Resolve(ctx context.Context, c *client.Client, deps []manifests.KernelDependency) ([]Resolved, error) {
	r := &resolver{c: c, done: map[string]Resolved{}}
	for _, d := range deps {
		if err := r.visit(ctx, d, nil); err != nil {
			return nil, err
		}
	}
	out := slices.Collect(maps.Values(r.done))
	slices.SortFunc(out, func(a, b Resolved) int {
		if c := strings.Compare(a.Dependency.RepoID, b.Dependency.RepoID); c != 0 {
			return c
		}
		av, bv := a.Dependency.Version, b.Dependency.Version
		switch {
		case av != nil && bv != nil:
			return *av - *bv
		case av != nil:
			return -1
		case bv != nil:
			return 1
		}
		return strings.Compare(a.Dependency.Revision, b.Dependency.Revision)
	})
	return out, nil
}

type resolver struct {
	c    *client.Client
	done map[string]Resolved
}

func (r *resolver) visit(ctx context.Context, d manifests.KernelDependency, path []string) error {
	id := d.String()
	if slices.Contains(path, id) {
		return fmt.Errorf("kernels depend on each other in a circle: %s", strings.Join(append(path, id), " -> "))
	}
	if _, ok := r.done[id]; ok {
		return nil
	}
	path = append(path[:len(path):len(path)], id)
	repo, err := client.ParseRepo(client.Kernel, d.RepoID)
	if err != nil {
		return err
	}
	commit, err := r.commit(ctx, repo, d)
	if err != nil {
		return err
	}
	variants, next, err := Pin(ctx, r.c, repo, commit)
	if err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	for _, n := range next {
		if err := r.visit(ctx, n, path); err != nil {
			return err
		}
	}
	r.done[id] = Resolved{d, commit, variants}
	return nil
}

func (r *resolver) commit(ctx context.Context, repo client.Repo, d manifests.KernelDependency) (string, error) {
	if d.Version == nil {
		return r.c.Revision(ctx, repo, d.Revision)
	}
	refs, err := r.c.Refs(ctx, repo, false)
	if err != nil {
		return "", err
	}
	if commit, ok := refs.Branch(branchOf(*d.Version)); ok {
		return commit, nil
	}
	var have []string
	for _, b := range refs.Branches {
		if n, ok := strings.CutPrefix(b.Name, "v"); ok && n != "" && strings.Trim(n, "0123456789") == "" {
			have = append(have, n)
		}
	}
	return "", fmt.Errorf("%s has no version %d; it has %s", repo, *d.Version, strings.Join(have, ", "))
}

// Pin computes the digests of all variants at a commit without downloading
// them: a metadata lists the digests of its files, so that only the metadata
// and what it leaves out is fetched. Pulling and verifying hash the bytes
// themselves, so a metadata that lies is found there. It also returns the
// kernels that the variants depend on.
func Pin(ctx context.Context, c *client.Client, repo client.Repo, commit string) (map[string]Digest, []manifests.KernelDependency, error) {
	entries, err := c.Tree(ctx, repo, commit, "build", true)
	if err != nil {
		return nil, nil, err
	}
	byVariant := map[string][]client.Entry{}
	for _, e := range entries {
		parts := strings.SplitN(e.Path, "/", 3)
		if e.Dir || len(parts) != 3 || parts[0] != "build" {
			continue
		}
		if _, err := manifests.ParseVariantName(parts[1]); err == nil {
			byVariant[parts[1]] = append(byVariant[parts[1]], e)
		}
	}
	out := map[string]Digest{}
	deps := map[string]manifests.KernelDependency{}
	for _, name := range slices.Sorted(maps.Keys(byVariant)) {
		d, m, err := pinVariant(ctx, c, repo, commit, byVariant[name])
		if err != nil {
			return nil, nil, fmt.Errorf("variant %s: %w", name, err)
		}
		out[name] = d
		for _, k := range m.KernelDepends {
			deps[k.String()] = k
		}
	}
	var next []manifests.KernelDependency
	for _, id := range slices.Sorted(maps.Keys(deps)) {
		next = append(next, deps[id])
	}
	return out, next, nil
}

func pinVariant(ctx context.Context, c *client.Client, repo client.Repo, commit string, files []client.Entry) (Digest, *manifests.Metadata, error) {
	hexes := map[string]string{}
	var meta *manifests.Metadata
	within := func(e client.Entry) string { return strings.SplitN(e.Path, "/", 3)[2] }
	read := func(e client.Entry, limit int64) ([]byte, error) {
		if limit > 0 && e.Size > limit {
			return nil, fmt.Errorf("%s: %d bytes: expected at most %d", e.Path, e.Size, limit)
		}
		body, err := c.Open(ctx, repo, commit, e.Path, e.Size)
		if err != nil {
			return nil, err
		}
		defer body.Close()
		h := sha256.New()
		var buf strings.Builder
		var w io.Writer = h
		if limit > 0 {
			w = io.MultiWriter(h, &buf)
		}
		if _, err := io.Copy(w, body); err != nil {
			return nil, err
		}
		hexes[within(e)] = hex.EncodeToString(h.Sum(nil))
		return []byte(buf.String()), nil
	}
	for _, e := range files {
		if within(e) == manifests.MetadataFile {
			data, err := read(e, 32<<20)
			if err != nil {
				return "", nil, err
			}
			if meta, err = manifests.ParseMetadata(data); err != nil {
				return "", nil, fmt.Errorf("metadata.json: %w", err)
			}
		}
	}
	if meta == nil {
		return "", nil, errors.New("no metadata.json")
	}
	for _, e := range files {
		name := within(e)
		if !Covers(name) || hexes[name] != "" {
			continue
		}
		if e.SHA256 != "" {
			hexes[name] = e.SHA256
			continue
		}
		if meta.Digest != nil && meta.Digest.Algorithm == manifests.SHA256 {
			if raw, err := base64.StdEncoding.DecodeString(meta.Digest.Files[name]); err == nil && len(raw) == sha256.Size {
				hexes[name] = hex.EncodeToString(raw)
				continue
			}
		}
		if _, err := read(e, 0); err != nil {
			return "", nil, err
		}
	}
	return VariantDigest(hexes), meta, nil
}

// Legacy computes the entry of a kernels.lock in the shape up to 0.16. Like
// its producer it lists torch variants only.
func Legacy(ctx context.Context, c *client.Client, repo client.Repo, commit string) (manifests.LegacyLock, error) {
	entries, err := c.Tree(ctx, repo, commit, "build", true)
	if err != nil {
		return manifests.LegacyLock{}, err
	}
	l := manifests.LegacyLock{RepoID: repo.ID(), SHA: commit}
	files := map[string][]manifests.LegacyFile{}
	var order []string
	for _, e := range entries {
		parts := strings.SplitN(e.Path, "/", 3)
		if e.Dir || len(parts) != 3 || !strings.HasPrefix(e.Path, "build/torch") {
			continue
		}
		if files[parts[1]] == nil {
			order = append(order, parts[1])
		}
		files[parts[1]] = append(files[parts[1]], manifests.LegacyFile{Path: parts[2], OID: e.ETag()})
	}
	for _, name := range order {
		hash, err := manifests.LegacyHash(files[name])
		if err != nil {
			return l, fmt.Errorf("variant %s: %w", name, err)
		}
		l.Variants = append(l.Variants, manifests.LegacyVariant{Name: name, Hash: hash, HashType: "git_lfs_concat"})
	}
	return l, nil
}
