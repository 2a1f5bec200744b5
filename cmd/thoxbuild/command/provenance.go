package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/thox-ai/thoxbuild/hub/bundle"
	"github.com/thox-ai/thoxbuild/hub/oci"
	"github.com/thox-ai/thoxbuild/hub/sign"
	"github.com/thox-ai/thoxbuild/hub/source"
	"github.com/thox-ai/thoxbuild/manifests"
)

// provenanceFile is where 'thoxbuild sign --provenance DIR' puts a variant's
// statement.
func provenanceFile(dir, variant string) string {
	return filepath.Join(dir, variant+".intoto.sigstore.json")
}

// provenance is the statement about how a variant was built: the signed one of
// dir, which must be about this build, or without dir one that nobody signed.
func provenance(dir string, v *bundle.Variant, inputs []sign.Input) (oci.Attachment, error) {
	a := oci.Attachment{Variant: v.Name, ArtifactType: oci.ProvenanceType}
	var err error
	if dir == "" {
		a.Data, err = sign.Provenance(v, inputs)
		return a, err
	}
	a.MediaType = oci.SignatureType
	if a.Data, err = os.ReadFile(provenanceFile(dir, v.Name)); err != nil {
		return a, withHint(usageError{err}, "'thoxbuild sign --provenance %s' writes it", dir)
	}
	metadata, err := os.ReadFile(filepath.Join(v.Dir, manifests.MetadataFile))
	if err != nil {
		return a, err
	}
	if err := sign.StatesBuild(v.Name, metadata, a.Data); err != nil {
		return a, findingsError{fmt.Sprintf("variant %s: the provenance in %s: %v; sign it again", v.Name, dir, err)}
	}
	return a, nil
}

// attachedProvenance says that the statements are those attached in a registry.
const attachedProvenance = "registry"

// checkProvenance adds to the check of a variant's signature that its
// provenance is signed too, by a file in from or a document in the registry.
func checkProvenance(p *sign.Policy, repo, from string, src func() source.Source) func(context.Context, string, []byte, []byte) error {
	signature := p.For(repo)
	return func(ctx context.Context, variant string, metadata, bundleJSON []byte) error {
		if err := signature(ctx, variant, metadata, bundleJSON); err != nil {
			return err
		}
		var all [][]byte
		if from == attachedProvenance {
			image, ok := src().(*oci.Source)
			if !ok {
				return errors.New("--provenance registry needs a kernel of a registry")
			}
			docs, err := image.Referrers(variant, oci.ProvenanceType)
			if err != nil {
				return err
			}
			for _, d := range docs {
				if d.MediaType == oci.SignatureType {
					all = append(all, d.Data)
				}
			}
		} else if b, err := os.ReadFile(provenanceFile(from, variant)); err == nil {
			all = append(all, b)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		err := p.CheckProvenance(repo, variant, metadata, nil)
		for _, b := range all {
			if err = p.CheckProvenance(repo, variant, metadata, b); err == nil {
				return nil
			}
		}
		return fmt.Errorf("provenance: %w", err)
	}
}
