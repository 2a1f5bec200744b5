package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// unseen refuses to replace a variant that somebody else pushed after the
// first reading.
func (p *push) unseen(idx *v1.IndexManifest) error {
	now := map[string]string{}
	for _, d := range idx.Manifests {
		now[d.Annotations[AnnotationVariant]] = d.Annotations[AnnotationDigest]
	}
	if p.seen == nil {
		p.seen = now
		return nil
	}
	for _, v := range p.o.Bundle.Variants {
		if got := now[v.Name]; got != "" && got != p.seen[v.Name] && got != string(v.Digest) {
			return fmt.Errorf("%w: %s of %s is %s now", ErrConflict, v.Name, p.ref, got)
		}
	}
	return nil
}

// move points the tag to the new index. It starts over if the tag has moved
// since it was read, or if, a moment after the write, somebody who had read
// the tag before it has written theirs over it.
func (p *push) move(ctx context.Context, raw []byte, oldDigest string, descs []v1.Descriptor) error {
	start := time.Now()
	_, now, err := readIndex(p.ref, p.remote)
	if err != nil {
		return err
	}
	if now != oldDigest {
		return fmt.Errorf("%w: %s is at %s", errMoved, p.ref, now)
	}
	if err := remote.Put(p.ref, rawIndex(raw), p.remote...); err != nil {
		return fmt.Errorf("tag %s: %w", p.ref, err)
	}
	settle := p.o.Settle
	if settle == 0 {
		settle = max(2*time.Since(start), 50*time.Millisecond)
	}
	if err := pause(ctx, settle); err != nil {
		return err
	}
	idx, now, err := readIndex(p.ref, p.remote)
	if err != nil {
		return err
	}
	for _, d := range descs {
		if !slices.ContainsFunc(idx.Manifests, func(have v1.Descriptor) bool { return have.Digest == d.Digest }) {
			return fmt.Errorf("%w: %s is at %s", errMoved, p.ref, now)
		}
	}
	return nil
}

// readIndex reads the index behind a reference. A tag that is not there is an
// empty index with an empty digest.
func readIndex(ref name.Reference, opts []remote.Option) (*v1.IndexManifest, string, error) {
	d, err := remote.Get(ref, opts...)
	var te *transport.Error
	if errors.As(err, &te) && te.StatusCode == 404 {
		return &v1.IndexManifest{}, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read %s: %w", ref, err)
	}
	if d.MediaType != types.OCIImageIndex {
		return nil, "", fmt.Errorf("read %s: it is a %s, not a kernel's image index; choose another repository or tag", ref, d.MediaType)
	}
	var idx v1.IndexManifest
	if err := json.Unmarshal(d.Manifest, &idx); err != nil {
		return nil, "", fmt.Errorf("read %s: %w", ref, err)
	}
	return &idx, d.Digest.String(), nil
}
