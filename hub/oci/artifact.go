package oci

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strconv"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/thox-ai/thoxbuild/hub/bundle"
	"github.com/thox-ai/thoxbuild/hub/client"
	"github.com/thox-ai/thoxbuild/hub/lock"
	"github.com/thox-ai/thoxbuild/manifests"
)

// The media types of this package.
const (
	ConfigMediaType  types.MediaType = "application/vnd.thox.kernel.variant.v1+json"
	VariantType                      = "application/vnd.thox.kernel.variant.v1"
	SignatureType                    = "application/vnd.dev.sigstore.bundle.v0.3+json"
	ABIReportType                    = "application/vnd.thox.kernel.abicheck.v1+json"
	ProvenanceType                   = "application/vnd.in-toto+json"
	emptyConfig      types.MediaType = "application/vnd.oci.empty.v1+json"
	maxConfig                        = 64 << 20
	annotationPrefix                 = "ai.thox.kernel."
)

// The annotations of a variant's entry in the index.
const (
	AnnotationVariant   = annotationPrefix + "variant"
	AnnotationDigest    = annotationPrefix + "digest"
	AnnotationName      = annotationPrefix + "name"
	AnnotationVersion   = annotationPrefix + "version"
	AnnotationFramework = annotationPrefix + "framework"
	AnnotationTorch     = annotationPrefix + "torch"
	AnnotationCompute   = annotationPrefix + "compute"
	AnnotationABI       = annotationPrefix + "abi"
)

// config is a variant's config: what the layer holds, without the layer.
type config struct {
	Variant string       `json:"variant"`
	Digest  lock.Digest  `json:"digest"`
	Files   []configFile `json:"files"`
	// LayerSize is the sum of the files, a bound for unpacking.
	Bytes int64 `json:"bytes"`
}

type configFile struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

func (c *config) check() error {
	if _, err := manifests.ParseVariantName(c.Variant); err != nil {
		return err
	}
	if _, err := lock.ParseDigest(string(c.Digest)); err != nil {
		return err
	}
	seen := map[string]bool{}
	total := int64(0)
	for _, f := range c.Files {
		if err := client.CheckPath(f.Path); err != nil {
			return err
		}
		if seen[f.Path] || f.Size < 0 || len(f.SHA256) != 64 {
			return fmt.Errorf("%s: listed twice, or without a size or SHA-256", f.Path)
		}
		seen[f.Path] = true
		total += f.Size
	}
	if total != c.Bytes {
		return fmt.Errorf("%s: the files have %d bytes, the config says %d", c.Variant, total, c.Bytes)
	}
	return nil
}

// annotations describe a variant to whoever chooses from the index.
func annotations(v *bundle.Variant) map[string]string {
	n := v.Parsed
	a := map[string]string{
		"org.opencontainers.image.title": v.Name,
		AnnotationVariant:                v.Name,
		AnnotationDigest:                 string(v.Digest),
		AnnotationName:                   v.Metadata.Name,
		AnnotationVersion:                strconv.Itoa(v.Metadata.Version),
		AnnotationFramework:              string(n.Framework),
		AnnotationCompute:                n.Compute.String(),
	}
	switch n.Framework {
	case manifests.Torch:
		a[AnnotationTorch] = n.Version.String()
		if n.Platform.OS == manifests.Linux {
			a[AnnotationABI] = "cxx11"
		}
	case manifests.TorchStableABI:
		a[AnnotationTorch], a[AnnotationABI] = n.Version.String(), "stable"
	}
	if a[AnnotationCompute] == "" {
		a[AnnotationCompute] = string(v.Metadata.Backend.Type)
	}
	return a
}

// platform translates into the names that registries use.
func platform(n manifests.VariantName) *v1.Platform {
	if n.Framework == manifests.TorchNoarch {
		return &v1.Platform{OS: "unknown", Architecture: "unknown"}
	}
	arch := map[manifests.Arch]string{manifests.X86_64: "amd64", manifests.AArch64: "arm64"}[n.Platform.Arch]
	return &v1.Platform{OS: string(n.Platform.OS), Architecture: arch}
}

// artifact is a manifest with its config; the layers are sent before it.
type artifact struct{ manifest, config []byte }

// RawManifest implements remote.Taggable.
func (a *artifact) RawManifest() ([]byte, error) { return a.manifest, nil }

// MediaType tells the registry what the manifest is.
func (a *artifact) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// wireManifest is an OCI manifest with the artifact type, which the library's
// struct lacks.
type wireManifest struct {
	SchemaVersion int64             `json:"schemaVersion"`
	MediaType     types.MediaType   `json:"mediaType"`
	ArtifactType  string            `json:"artifactType,omitempty"`
	Config        v1.Descriptor     `json:"config"`
	Layers        []v1.Descriptor   `json:"layers"`
	Subject       *v1.Descriptor    `json:"subject,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// newArtifact builds a manifest of one layer and its descriptor.
func newArtifact(m wireManifest, configType types.MediaType, cfg []byte, layer v1.Descriptor) (*artifact, v1.Descriptor, error) {
	m.SchemaVersion, m.MediaType = 2, types.OCIManifestSchema1
	h, n, err := v1.SHA256(bytes.NewReader(cfg))
	if err != nil {
		return nil, v1.Descriptor{}, err
	}
	m.Config = v1.Descriptor{MediaType: configType, Size: n, Digest: h}
	m.Layers = []v1.Descriptor{layer}
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, v1.Descriptor{}, err
	}
	mh, size, err := v1.SHA256(bytes.NewReader(raw))
	return &artifact{raw, cfg}, v1.Descriptor{MediaType: types.OCIManifestSchema1, Size: size, Digest: mh, ArtifactType: m.ArtifactType}, err
}

// variantArtifact builds a variant's manifest and its entry in the index.
func variantArtifact(v *bundle.Variant, layer *fileLayer) (*artifact, v1.Descriptor, error) {
	c := config{Variant: v.Name, Digest: v.Digest, Files: []configFile{}}
	for _, f := range v.Files {
		c.Files = append(c.Files, configFile{f.Path, f.Size, f.SHA256})
		c.Bytes += f.Size
	}
	cfg, err := json.Marshal(c)
	if err != nil {
		return nil, v1.Descriptor{}, err
	}
	a := annotations(v)
	art, desc, err := newArtifact(wireManifest{ArtifactType: VariantType, Annotations: a}, ConfigMediaType, cfg,
		v1.Descriptor{MediaType: types.OCILayerZStd, Size: layer.size, Digest: layer.digest})
	desc.Platform, desc.Annotations = platform(v.Parsed), maps.Clone(a)
	return art, desc, err
}

// rawIndex is an index that consists of its bytes; its children are pushed
// before it.
type rawIndex []byte

// RawManifest implements remote.Taggable.
func (r rawIndex) RawManifest() ([]byte, error) { return r, nil }

// MediaType tells the registry what the bytes are.
func (rawIndex) MediaType() (types.MediaType, error) { return types.OCIImageIndex, nil }

func readAllLimited(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("larger than %d bytes", limit)
	}
	return b, err
}
