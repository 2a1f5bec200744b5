package toolchain

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/mod/semver"
)

// pin returns the package for a key: the locked one, else the one that choose
// picks from the index, which is then locked.
func (s *Store) pin(ctx context.Context, key, project string, choose func([]Dist) (Dist, string, error)) (Package, error) {
	if p, ok := s.opts.Lock.get(key); ok {
		s.remember(p)
		return p, nil
	}
	if s.opts.Offline {
		// Another workspace's build may have fetched it.
		if p, ok := s.pins.get(key); ok {
			s.opts.Lock.put(p)
			return p, nil
		}
	}
	dists, err := s.index.project(ctx, project)
	if err != nil {
		return Package{}, fmt.Errorf("choose a release of %s: %w", project, err)
	}
	d, version, err := choose(dists)
	if err != nil {
		return Package{}, err
	}
	if len(d.SHA256) != 64 {
		return Package{}, &Error{"pin " + d.File, errors.New("the index gives no sha256 for it"),
			"use an index that gives hashes (PEP 691)"}
	}
	p := Package{Key: key, Project: project, Version: version, File: d.File, SHA256: d.SHA256, Size: d.Size}
	s.opts.Lock.put(p)
	s.remember(p)
	return p, nil
}

// remember keeps a pin for --offline builds of other workspaces. It is a memo:
// where it cannot be written, such a build asks for the network.
func (s *Store) remember(p Package) {
	if old, ok := s.pins.get(p.Key); ok && old.SHA256 == p.SHA256 {
		return
	}
	s.pins.put(p)
	_ = s.pins.Save(s.pinsPath())
}

// locate finds a pinned package on the index.
func (s *Store) locate(ctx context.Context, p Package) (Dist, error) {
	op := "find " + p.File
	dists, err := s.index.project(ctx, p.Project)
	if err != nil {
		return Dist{}, fmt.Errorf("%s: %w", op, err)
	}
	for _, d := range dists {
		if d.File != p.File {
			continue
		}
		if d.SHA256 != p.SHA256 {
			return Dist{}, &Error{op, fmt.Errorf("the index gives sha256 %s, toolchain.lock has %s", d.SHA256, p.SHA256),
				"somebody changed a published file or the lock; find out which before you go on"}
		}
		return d, nil
	}
	return Dist{}, &Error{op, errors.New("the index does not have the file that toolchain.lock pins"),
		"use an index that has it, or remove its entry from toolchain.lock to pin a newer one"}
}

// newestWheel picks the newest release of a project whose wheel passes fits.
// prefix limits the versions: "2.13." for the patch releases of 2.13.
func newestWheel(dists []Dist, project, prefix string, fits func(tags string) bool) (Dist, string, error) {
	var best Dist
	var bestVersion string
	for _, d := range dists {
		name, ok := strings.CutSuffix(d.File, ".whl")
		if !ok || d.Yanked {
			continue
		}
		// NAME-VERSION[-BUILD]-PYTHON-ABI-PLATFORM (PEP 427)
		parts := strings.SplitN(name, "-", 3)
		if len(parts) < 3 || !strings.EqualFold(strings.ReplaceAll(parts[0], "_", "-"), project) {
			continue
		}
		version := parts[1]
		if !strings.HasPrefix(version+".", prefix) || !semver.IsValid("v"+threeParts(version)) || !fits(parts[2]) {
			continue
		}
		if bestVersion == "" || semver.Compare("v"+threeParts(version), "v"+threeParts(bestVersion)) > 0 {
			best, bestVersion = d, version
		}
	}
	if bestVersion == "" {
		what := "a fitting wheel of " + project
		if prefix != "" {
			what += " " + strings.TrimSuffix(prefix, ".")
		}
		return Dist{}, "", &Error{"choose a release", fmt.Errorf("the index has no %s", strings.TrimPrefix(what, "a ")),
			"run 'thoxbuild matrix' for the releases that the catalogue knows, and check --index-url"}
	}
	return best, bestVersion, nil
}

// threeParts pads 0.17.1 and 13.0.88 alike; a fourth component is dropped,
// which is enough to order the projects that are used here.
func threeParts(v string) string {
	parts := strings.Split(v, ".")
	for len(parts) < 3 {
		parts = append(parts, "0")
	}
	return strings.Join(parts[:3], ".")
}

// wheelEntry unpacks a whole wheel, or the part that pick chooses, and lets go
// of the wheel.
func (s *Store) wheelEntry(ctx context.Context, p Package, name string, pick func(string) string) (string, error) {
	made := false
	dir, err := s.entry(ctx, fmt.Sprintf("%s-%s-%s", name, p.Version, p.SHA256[:16]), func(dir string) error {
		made = true
		return s.unpackWheel(ctx, p, dir, pick)
	})
	if made && err == nil {
		_ = os.Remove(s.downloadPath(p.SHA256, p.File)) // else 'toolchain prune' does
	}
	return dir, err
}

// unpackWheel fetches a wheel and unpacks what pick chooses of it into dir.
func (s *Store) unpackWheel(ctx context.Context, p Package, dir string, pick func(string) string) error {
	d, err := s.locate(ctx, p)
	if err != nil {
		return err
	}
	file, err := s.download(ctx, d)
	if err != nil {
		return err
	}
	z, err := zip.OpenReader(file)
	if err != nil {
		return err
	}
	defer z.Close()
	_, err = (&unpacking{dir: dir, pick: pick}).unzip(ctx, &z.Reader)
	return err
}

func (s *Store) logf(format string, args ...any) {
	if s.opts.Log != nil {
		s.opts.Log(format, args...)
	}
}
