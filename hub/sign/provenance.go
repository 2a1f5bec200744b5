package sign

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	sigstorebundle "github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/thox-ai/thoxbuild/hub/bundle"
	"github.com/thox-ai/thoxbuild/manifests"
)

// BuildType names what the parameters of a statement mean.
const BuildType = "https://github.com/thox-ai/thoxbuild/build/v1"

const predicateType = "https://slsa.dev/provenance/v1"

// Input is a file that a build read: a source, the manifest, the toolchain's
// lock.
type Input struct {
	// Name is relative to the workspace.
	Name   string
	SHA256 string // hex
}

// NewInput hashes a file's content.
func NewInput(name string, content []byte) Input {
	sum := sha256.Sum256(content)
	return Input{name, hex.EncodeToString(sum[:])}
}

type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

type predicate struct {
	BuildDefinition struct {
		BuildType          string            `json:"buildType"`
		ExternalParameters map[string]string `json:"externalParameters"`
		Dependencies       []resource        `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID      string            `json:"id"`
			Version map[string]string `json:"version,omitempty"`
		} `json:"builder"`
	} `json:"runDetails"`
}

// Provenance is an in-toto statement with a SLSA v1 predicate about one
// variant: its files, the sources and the lock that they came from, and the
// command that makes them again. It holds no time, so equal builds have equal
// statements.
func Provenance(v *bundle.Variant, inputs []Input) ([]byte, error) {
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: predicateType, Subject: []resource{}}
	for _, f := range v.Files {
		if f.SHA256 == "" {
			return nil, fmt.Errorf("provenance of %s: %s was not hashed", v.Name, f.Path)
		}
		if strings.HasSuffix(f.Path, ".sigstore") {
			continue // made after the build
		}
		s.Subject = append(s.Subject, resource{Name: path.Join("build", v.Name, f.Path), Digest: map[string]string{"sha256": f.SHA256}})
	}
	def := &s.Predicate.BuildDefinition
	def.BuildType = BuildType
	def.ExternalParameters = map[string]string{
		"kernel": v.Metadata.Name, "version": fmt.Sprint(v.Metadata.Version), "variant": v.Name,
		"command": "thoxbuild build --variant " + v.Name,
	}
	def.Dependencies = []resource{}
	if p := v.Metadata.Provenance; p != nil {
		s.Predicate.RunDetails.Builder.Version = map[string]string{"thoxbuild": p.KernelBuilder.Version}
		if p.Kernel != nil {
			def.Dependencies = append(def.Dependencies, resource{Name: "source commit", Digest: map[string]string{"gitCommit": p.Kernel.SHA}})
			if p.Kernel.Dirty {
				def.ExternalParameters["dirty"] = "true"
			}
		}
	}
	s.Predicate.RunDetails.Builder.ID = "https://github.com/thox-ai/thoxbuild"
	sorted := slices.SortedFunc(slices.Values(inputs), func(a, b Input) int { return strings.Compare(a.Name, b.Name) })
	for _, in := range sorted {
		def.Dependencies = append(def.Dependencies, resource{Name: in.Name, Digest: map[string]string{"sha256": in.SHA256}})
	}
	return json.Marshal(s)
}

// CheckProvenance verifies a bundle that holds a signed provenance statement
// about a variant with this metadata, which lists the digests of all its files.
// The error wraps ErrUntrusted.
func (p *Policy) CheckProvenance(repo, variant string, metadata, bundleJSON []byte) error {
	if len(bundleJSON) == 0 {
		return fmt.Errorf("%w: it has no signed provenance", ErrUntrusted)
	}
	sum := sha256.Sum256(metadata)
	if _, err := p.CheckStatement(repo, sum[:], bundleJSON); err != nil {
		return err
	}
	if err := StatesBuild(variant, metadata, bundleJSON); err != nil {
		return fmt.Errorf("%w: %w", ErrUntrusted, err)
	}
	return nil
}

// StatesBuild reports whether a bundle holds a provenance statement about a
// variant with this metadata at all, whoever signed it. It trusts nothing; it
// finds statements about an earlier build.
func StatesBuild(variant string, metadata, bundleJSON []byte) error {
	b := &sigstorebundle.Bundle{}
	if err := b.UnmarshalJSON(bundleJSON); err != nil {
		return fmt.Errorf("the bundle: %w", err)
	}
	e := b.GetDsseEnvelope()
	if e.GetPayloadType() != StatementType {
		return fmt.Errorf("it holds %q, not a statement (%s)", e.GetPayloadType(), StatementType)
	}
	var s statement
	if err := json.Unmarshal(e.GetPayload(), &s); err != nil {
		return fmt.Errorf("the statement: %w", err)
	}
	def := s.Predicate.BuildDefinition
	if s.PredicateType != predicateType || def.BuildType != BuildType || def.ExternalParameters["variant"] != variant {
		return fmt.Errorf("it states %s by %s of %q, not how thoxbuild built %s", s.PredicateType, def.BuildType, def.ExternalParameters["variant"], variant)
	}
	sum := sha256.Sum256(metadata)
	name := path.Join("build", variant, manifests.MetadataFile)
	if !slices.ContainsFunc(s.Subject, func(r resource) bool { return r.Name == name && r.Digest["sha256"] == hex.EncodeToString(sum[:]) }) {
		return fmt.Errorf("it is about another build: no subject %s has the digest %x", name, sum)
	}
	return nil
}
