package sign

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"
)

// Policy says whose signatures count. The file is TOML; paths in it are
// relative to it:
//
//	trusted-root = "trusted_root.json"
//
//	[[signer]]
//	repository = "thox-ai/*"
//	issuer = "https://token.actions.githubusercontent.com"
//	identity = "https://github.com/thox-ai/thox-edge-ops/.github/workflows/release.yml@refs/heads/main"
//	source-repository = "https://github.com/thox-ai/thox-edge-ops"
//
//	[[signer]]
//	key = "cosign.pub"
type Policy struct {
	// TrustedRoot is a file of sigstore's trusted_root.json form: which
	// authorities and logs are believed. Without it that of the public
	// services is fetched, by their own update protocol.
	TrustedRoot string    `toml:"trusted-root"`
	Signers     []Allowed `toml:"signer"`

	material root.TrustedMaterial
}

// Allowed is one signer whose signature is enough.
type Allowed struct {
	// Repository is a glob for NAMESPACE/NAME or oci://HOST/REPO; empty for
	// any.
	Repository string `toml:"repository"`
	// Key is a public key's file. It excludes the rest.
	Key string `toml:"key"`
	// Issuer of the OIDC token and Identity in the certificate, exactly or by
	// a regular expression that must match all of it.
	Issuer         string `toml:"issuer"`
	Identity       string `toml:"identity"`
	IdentityRegexp string `toml:"identity-regexp"`
	// SourceRepository, if set, must be the one that the CI job ran for.
	SourceRepository string `toml:"source-repository"`

	public crypto.PublicKey
}

// ErrUntrusted says that no signature counts.
var ErrUntrusted = errors.New("no trusted signature")

// maxBundle bounds the bundles that are parsed.
const maxBundle = 1 << 20

// KeyPolicy trusts one public key, in PEM, for every repository.
func KeyPolicy(publicPEM []byte) (*Policy, error) {
	pub, err := parsePublic(publicPEM)
	return &Policy{Signers: []Allowed{{public: pub}}}, err
}

// LoadPolicy reads a policy and everything that it names.
func LoadPolicy(file string) (*Policy, error) {
	var p Policy
	md, err := toml.DecodeFile(file, &p)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", file, err)
	}
	if extra := md.Undecoded(); len(extra) > 0 {
		return nil, fmt.Errorf("policy %s: unknown key %s", file, extra[0])
	}
	if len(p.Signers) == 0 {
		return nil, fmt.Errorf("policy %s: it trusts nobody; add a [[signer]]", file)
	}
	near := func(name string) string {
		if filepath.IsAbs(name) {
			return name
		}
		return filepath.Join(filepath.Dir(file), name)
	}
	for i := range p.Signers {
		s := &p.Signers[i]
		if _, err := path.Match(s.Repository, "a/b"); err != nil {
			return nil, fmt.Errorf("policy %s: signer %d: repository %q: %w", file, i+1, s.Repository, err)
		}
		switch keyless := s.Issuer != "" || s.Identity != "" || s.IdentityRegexp != "" || s.SourceRepository != ""; {
		case s.Key != "" && keyless:
			return nil, fmt.Errorf("policy %s: signer %d: give a key, or an issuer and an identity", file, i+1)
		case s.Key != "":
			b, err := os.ReadFile(near(s.Key))
			if err != nil {
				return nil, fmt.Errorf("policy %s: signer %d: %w", file, i+1, err)
			}
			if s.public, err = parsePublic(b); err != nil {
				return nil, fmt.Errorf("policy %s: signer %d: %s: %w", file, i+1, s.Key, err)
			}
		case s.Issuer == "" || (s.Identity == "") == (s.IdentityRegexp == ""):
			return nil, fmt.Errorf("policy %s: signer %d: give a key, or an issuer and either identity or identity-regexp", file, i+1)
		default:
			if _, err := s.certificate(); err != nil {
				return nil, fmt.Errorf("policy %s: signer %d: %w", file, i+1, err)
			}
		}
	}
	if p.TrustedRoot != "" {
		tr, err := root.NewTrustedRootFromPath(near(p.TrustedRoot))
		if err != nil {
			return nil, fmt.Errorf("policy %s: trusted root %s: %w", file, p.TrustedRoot, err)
		}
		p.material = tr
	}
	return &p, nil
}

// certificate is what the signer's certificate must say.
func (s *Allowed) certificate() (verify.CertificateIdentity, error) {
	re := s.IdentityRegexp
	if re != "" {
		re = "^(?:" + re + ")$"
	}
	san, err := verify.NewSANMatcher(s.Identity, re)
	if err != nil {
		return verify.CertificateIdentity{}, err
	}
	issuer, err := verify.NewIssuerMatcher(s.Issuer, "")
	if err != nil {
		return verify.CertificateIdentity{}, err
	}
	return verify.NewCertificateIdentity(san, issuer, certificate.Extensions{SourceRepositoryURI: s.SourceRepository})
}

// For returns a check of signatures on what a repository holds. Its form is
// that of verify.Options.Signature.
func (p *Policy) For(repo string) func(ctx context.Context, variant string, metadata, bundle []byte) error {
	return func(_ context.Context, _ string, metadata, bundle []byte) error {
		return p.Check(repo, metadata, bundle)
	}
}

// Check verifies a bundle over the exact bytes. The error wraps ErrUntrusted
// and says why each signer did not count.
func (p *Policy) Check(repo string, data, bundleJSON []byte) error {
	if len(bundleJSON) == 0 {
		return fmt.Errorf("%w: it is not signed", ErrUntrusted)
	}
	_, err := p.verify(repo, bundleJSON, verify.WithArtifact(bytes.NewReader(data)))
	return err
}

// Signs reports whether a bundle is about these bytes at all, whoever made it.
// It trusts nothing; it finds signatures that a newer build left behind.
func Signs(data, bundleJSON []byte) error {
	b := &bundle.Bundle{}
	if err := b.UnmarshalJSON(bundleJSON); err != nil {
		return fmt.Errorf("the bundle: %w", err)
	}
	sum := sha256.Sum256(data)
	if got := b.GetMessageSignature().GetMessageDigest().GetDigest(); !bytes.Equal(got, sum[:]) {
		return fmt.Errorf("it signs %x, the bytes are %x", got, sum)
	}
	return nil
}

// CheckStatement verifies a bundle that holds a statement about an artifact
// with this SHA-256.
func (p *Policy) CheckStatement(repo string, sha256 []byte, bundleJSON []byte) (*verify.VerificationResult, error) {
	return p.verify(repo, bundleJSON, verify.WithArtifactDigest("sha256", sha256))
}

func (p *Policy) verify(repo string, bundleJSON []byte, artifact verify.ArtifactPolicyOption) (*verify.VerificationResult, error) {
	if len(bundleJSON) > maxBundle {
		return nil, fmt.Errorf("%w: a bundle of %d bytes", ErrUntrusted, len(bundleJSON))
	}
	b := &bundle.Bundle{}
	if err := b.UnmarshalJSON(bundleJSON); err != nil {
		return nil, fmt.Errorf("%w: the bundle: %w", ErrUntrusted, err)
	}
	var why []error
	for i, s := range p.Signers {
		if ok, err := path.Match(s.Repository, repo); err != nil || !ok && s.Repository != "" {
			continue
		}
		r, err := p.check(b, &s, artifact)
		if err == nil {
			return r, nil
		}
		why = append(why, fmt.Errorf("signer %d: %w", i+1, err))
	}
	if len(why) == 0 {
		return nil, fmt.Errorf("%w: the policy names no signer for %s", ErrUntrusted, repo)
	}
	return nil, fmt.Errorf("%w: %w", ErrUntrusted, errors.Join(why...))
}

func (p *Policy) check(b verify.SignedEntity, s *Allowed, artifact verify.ArtifactPolicyOption) (*verify.VerificationResult, error) {
	if s.public != nil {
		sv, err := signature.LoadVerifier(s.public, crypto.SHA256)
		if err != nil {
			return nil, err
		}
		// The hint in the bundle is only a hint: one key is trusted.
		tm := root.NewTrustedPublicKeyMaterial(func(string) (root.TimeConstrainedVerifier, error) {
			return root.NewExpiringKey(sv, time.Time{}, time.Time{}), nil
		})
		v, err := verify.NewVerifier(tm, verify.WithNoObserverTimestamps())
		if err != nil {
			return nil, err
		}
		return v.Verify(b, verify.NewPolicy(artifact, verify.WithKey()))
	}
	if p.material == nil {
		tr, err := root.FetchTrustedRoot()
		if err != nil {
			return nil, fmt.Errorf("fetch the public trusted root (or name one with trusted-root): %w", err)
		}
		p.material = tr
	}
	// The log proves that the signature was made while the certificate was
	// valid. A private authority may have no certificate log.
	opts := []verify.VerifierOption{verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1)}
	if len(p.material.CTLogs()) > 0 {
		opts = append(opts, verify.WithSignedCertificateTimestamps(1))
	}
	v, err := verify.NewVerifier(p.material, opts...)
	if err != nil {
		return nil, err
	}
	who, err := s.certificate()
	if err != nil {
		return nil, err
	}
	return v.Verify(b, verify.NewPolicy(artifact, verify.WithCertificateIdentity(who)))
}
