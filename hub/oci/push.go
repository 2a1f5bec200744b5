package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/thox-ai/thoxbuild/hub/bundle"
	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/manifests"
	"golang.org/x/sync/errgroup"
)

// PushOptions say what to push where.
type PushOptions struct {
	Access
	Target Target
	// Bundle has passed the publisher's gates.
	Bundle *bundle.Bundle
	// MountFrom is another repository of the same registry that may hold the
	// layers already, or empty.
	MountFrom string
	// Attachments become referrers of their variant's manifest.
	Attachments []Attachment
	DryRun      bool
}

// Attachment is a document about a variant: a signature, a report.
type Attachment struct {
	Variant string
	// ArtifactType says what it is, such as ABIReportType.
	ArtifactType string
	MediaType    string
	Data         []byte
}

// Result says what was pushed.
type Result struct {
	// Changed is false if the tag had all of it already.
	Changed bool   `json:"changed"`
	Repo    string `json:"repo"`
	Tag     string `json:"tag"`
	// Revision is the digest of the index: the pin.
	Revision string                 `json:"revision"`
	Variants map[string]lock.Digest `json:"variants"`
	Sent     int64                  `json:"bytes_sent"`
	// Pushed names variants that the tag did not have in this form.
	Pushed []string `json:"pushed"`
	// Kept names variants of the tag that this push left as they were.
	Kept []string `json:"kept"`
}

// ErrConflict says that another publisher pushed one of the same variants
// meanwhile. It was not overwritten knowingly; look at it and push again.
var ErrConflict = errors.New("the tag holds changes that this push did not see")

// errMoved makes a push start over on what the tag holds now.
var errMoved = errors.New("the tag was moved by another publisher")

// maxRounds bounds how often a push starts over because the tag moved.
const maxRounds = 16

// Push brings a bundle under a tag: layers first, then manifests, the index
// last, so the tag never shows a half. Other variants of the tag stay.
func Push(ctx context.Context, o PushOptions) (*Result, error) {
	if o.Target.Digest != "" {
		return nil, fmt.Errorf("%s: a push needs a tag, not a digest", o.Target)
	}
	if o.Target.Tag == "" {
		o.Target.Tag = "v" + strconv.Itoa(o.Bundle.Variants[0].Metadata.Version)
	}
	o.Access = o.withDefaults()
	p := &push{o: o, ref: o.Target.Repo.Tag(o.Target.Tag), built: map[string]v1.Descriptor{}}
	var from []name.Repository
	if o.MountFrom != "" {
		r, err := name.NewRepository(o.Target.Repo.RegistryStr() + "/" + o.MountFrom)
		if err != nil {
			return nil, err
		}
		from = append(from, r)
	}
	up, rt, err := connect(ctx, o.Access, o.steady(&p.sent), o.Target.Repo, from...)
	if err != nil {
		return nil, err
	}
	p.up, p.remote = up, o.options(ctx, rt)
	if p.tmp, err = os.MkdirTemp("", "thoxbuild-oci-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(p.tmp)
	for round := 1; ; round++ {
		res, err := p.round(ctx)
		if !errors.Is(err, errMoved) || round >= maxRounds {
			return res, err
		}
		o.Log("%v; reading %s again", err, p.ref)
		if err := pause(ctx, rand.N(o.Wait/4+1)); err != nil {
			return nil, err
		}
	}
}

type push struct {
	o      PushOptions
	ref    name.Tag
	up     *uploader
	remote []remote.Option
	tmp    string
	sent   atomic.Int64
	// built holds what earlier rounds have packed and sent.
	mu    sync.Mutex
	built map[string]v1.Descriptor
	// seen is what the first reading found under the names of our variants.
	seen map[string]string
}

// round reads the tag, pushes what it lacks and moves it.
func (p *push) round(ctx context.Context) (*Result, error) {
	old, oldDigest, err := readIndex(p.ref, p.remote)
	if err != nil {
		return nil, err
	}
	if err := p.unseen(old); err != nil {
		return nil, err
	}
	res := &Result{Repo: p.o.Target.LockName(), Tag: p.o.Target.Tag, Variants: map[string]lock.Digest{}, Pushed: []string{}, Kept: []string{}}
	next := &v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Annotations: map[string]string{
		AnnotationName:    p.o.Bundle.Variants[0].Metadata.Name,
		AnnotationVersion: strconv.Itoa(p.o.Bundle.Variants[0].Metadata.Version),
	}}
	descs := make([]v1.Descriptor, len(p.o.Bundle.Variants))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(max(p.o.Jobs, 1))
	for i, v := range p.o.Bundle.Variants {
		res.Variants[v.Name] = v.Digest
		d, there := published(old, v)
		if !there {
			res.Pushed = append(res.Pushed, v.Name)
		}
		g.Go(func() (err error) {
			if descs[i] = d; !there {
				if descs[i], err = p.variant(gctx, v); err != nil {
					return err
				}
			}
			return p.attachAll(gctx, v, descs[i])
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	next.Manifests = descs
	for _, d := range old.Manifests {
		n := d.Annotations[AnnotationVariant]
		if _, replaced := res.Variants[n]; n != "" && !replaced {
			next.Manifests = append(next.Manifests, d)
			res.Kept = append(res.Kept, n)
		}
	}
	slices.SortFunc(next.Manifests, func(a, b v1.Descriptor) int {
		return strings.Compare(a.Annotations[AnnotationVariant], b.Annotations[AnnotationVariant])
	})
	raw, err := json.Marshal(next)
	if err != nil {
		return nil, err
	}
	h, _, err := v1.SHA256(strings.NewReader(string(raw)))
	if err != nil {
		return nil, err
	}
	res.Revision, res.Changed = h.String(), h.String() != oldDigest
	if p.o.DryRun {
		return res, nil
	}
	if res.Changed {
		if err := p.move(ctx, raw, oldDigest, descs); err != nil {
			return nil, err
		}
	}
	res.Sent = p.sent.Load()
	return res, nil
}

// published finds a variant of the same digest in the tag's index.
func published(idx *v1.IndexManifest, v *bundle.Variant) (v1.Descriptor, bool) {
	hasSignature := slices.ContainsFunc(v.Files, func(f client.File) bool { return f.Path == manifests.SignatureFile })
	for _, d := range idx.Manifests {
		if d.Annotations[AnnotationVariant] == v.Name && d.Annotations[AnnotationDigest] == string(v.Digest) && !hasSignature {
			return d, true
		}
	}
	return v1.Descriptor{}, false
}

// variant packs a variant and sends it, while others are packed.
func (p *push) variant(ctx context.Context, v *bundle.Variant) (v1.Descriptor, error) {
	p.mu.Lock()
	d, ok := p.built[v.Name]
	p.mu.Unlock()
	if ok {
		return d, nil
	}
	layer, err := writeLayer(ctx, p.tmp, v.Files)
	if err != nil {
		return d, fmt.Errorf("pack %s: %w", v.Name, err)
	}
	defer os.Remove(layer.path)
	art, d, err := variantArtifact(v, layer)
	if err != nil || p.o.DryRun {
		return d, err
	}
	if err := p.send(ctx, art, d, layer.blob()); err != nil {
		return d, fmt.Errorf("push %s: %w", v.Name, err)
	}
	p.mu.Lock()
	p.built[v.Name] = d
	p.mu.Unlock()
	return d, nil
}

// send uploads what a manifest names, and then the manifest.
func (p *push) send(ctx context.Context, a *artifact, d v1.Descriptor, layer blob) error {
	cfg, err := bytesBlob(a.config)
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(min(max(p.o.Jobs, 1), 2))
	g.Go(func() error { return p.up.upload(gctx, layer, p.o.MountFrom) })
	g.Go(func() error { return p.up.upload(gctx, cfg, "") })
	if err := g.Wait(); err != nil {
		return err
	}
	return remote.Put(p.o.Target.Repo.Digest(d.Digest.String()), a, p.remote...)
}

// attachAll pushes the documents about a variant that the registry does not
// list yet. One after the other: registries without a referrers API keep them
// in a tag that is read, changed and written.
func (p *push) attachAll(ctx context.Context, v *bundle.Variant, subject v1.Descriptor) error {
	var listed *v1.IndexManifest
	for _, a := range p.o.Attachments {
		if a.Variant != v.Name || p.o.DryRun {
			continue
		}
		if listed == nil {
			idx, err := remote.Referrers(p.o.Target.Repo.Digest(subject.Digest.String()), p.remote...)
			if err != nil {
				return fmt.Errorf("list what is attached to %s: %w", v.Name, err)
			}
			if listed, err = idx.IndexManifest(); err != nil {
				return err
			}
		}
		if err := p.attach(ctx, subject, a, listed); err != nil {
			return fmt.Errorf("attach %s to %s: %w", a.ArtifactType, v.Name, err)
		}
	}
	return nil
}

// attach pushes a referrer of a variant's manifest.
func (p *push) attach(ctx context.Context, subject v1.Descriptor, a Attachment, listed *v1.IndexManifest) error {
	if a.MediaType == "" {
		a.MediaType = a.ArtifactType
	}
	sub := v1.Descriptor{MediaType: subject.MediaType, Size: subject.Size, Digest: subject.Digest}
	data, err := bytesBlob(a.Data)
	if err != nil {
		return err
	}
	art, d, err := newArtifact(wireManifest{ArtifactType: a.ArtifactType, Subject: &sub, Annotations: map[string]string{AnnotationVariant: a.Variant}},
		emptyConfig, []byte("{}"), v1.Descriptor{MediaType: types.MediaType(a.MediaType), Size: data.size, Digest: data.digest})
	if err != nil || slices.ContainsFunc(listed.Manifests, func(have v1.Descriptor) bool { return have.Digest == d.Digest }) {
		return err
	}
	return p.send(ctx, art, d, data)
}
