package oci

import (
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// Scheme starts the addresses of this package.
const Scheme = "oci://"

// Target is oci://HOST/REPO[:TAG] or oci://HOST/REPO@sha256:DIGEST.
type Target struct {
	Repo name.Repository
	// Tag and Digest are empty if the address does not name them.
	Tag, Digest string
}

// ParseTarget reads an address. The host is required: none is guessed.
func ParseTarget(s string) (Target, error) {
	rest, ok := strings.CutPrefix(s, Scheme)
	if !ok {
		return Target{}, fmt.Errorf("registry %q: expected oci://HOST/REPO[:TAG]", s)
	}
	host, path, ok := strings.Cut(rest, "/")
	if !ok || path == "" || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return Target{}, fmt.Errorf("registry %q: expected oci://HOST/REPO[:TAG] with a host such as registry.example.org or 127.0.0.1:5000", s)
	}
	if strings.Contains(host, "@") {
		return Target{}, fmt.Errorf("registry: the address may hold no user or password; log in with docker login instead")
	}
	t := Target{}
	if _, digest, ok := strings.Cut(rest, "@"); ok {
		d, err := name.NewDigest(rest, name.StrictValidation)
		if err != nil {
			return Target{}, fmt.Errorf("registry %q: %w", s, err)
		}
		t.Digest, t.Repo = digest, d.Context()
		return t, nil
	}
	if i := strings.LastIndex(rest, ":"); i > strings.LastIndex(rest, "/") {
		tag, err := name.NewTag(rest, name.StrictValidation)
		if err != nil {
			return Target{}, fmt.Errorf("registry %q: %w", s, err)
		}
		t.Tag, t.Repo = tag.TagStr(), tag.Context()
		return t, nil
	}
	repo, err := name.NewRepository(rest, name.StrictValidation)
	if err != nil {
		return Target{}, fmt.Errorf("registry %q: %w", s, err)
	}
	t.Repo = repo
	return t, nil
}

// String prints the address that ParseTarget reads.
func (t Target) String() string {
	s := t.LockName()
	switch {
	case t.Digest != "":
		return s + "@" + t.Digest
	case t.Tag != "":
		return s + ":" + t.Tag
	}
	return s
}

// LockName is the repository's name in thoxbuild.lock.
func (t Target) LockName() string { return Scheme + t.Repo.Name() }

// ref is the reference to read: the digest before the tag.
func (t Target) ref() (name.Reference, error) {
	switch {
	case t.Digest != "":
		return t.Repo.Digest(t.Digest), nil
	case t.Tag != "":
		return t.Repo.Tag(t.Tag), nil
	}
	return nil, fmt.Errorf("%s: say which tag or digest", t)
}
