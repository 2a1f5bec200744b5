package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/thox-ai/thoxbuild/hub/bundle"
	"github.com/thox-ai/thoxbuild/hub/sign"
	"github.com/thox-ai/thoxbuild/manifests"
)

// signFlags say with what to sign.
type signFlags struct {
	key, newKey, fulcio, rekor, trustedRoot string
	keyless                                 bool
}

func newSign(g *globals) *cobra.Command {
	var sf signFlags
	var kernel, dir, provenance string
	var variants []string
	c := &cobra.Command{
		Use:   "sign",
		Short: "Sign the built variants' metadata, as cosign does, and state how they were built",
		Long: `Sign writes metadata.json.sigstore beside each variant's metadata.json: a sigstore
bundle over its exact bytes, and so, through the digests in it, over the whole
variant. 'thoxbuild publish' sends it along. With --provenance, a signed in-toto
statement with a SLSA predicate is written for each variant too.

--key takes a key in cosign's format; its password is COSIGN_PASSWORD or asked
for. --keyless signs as the CI job's identity: it needs SIGSTORE_ID_TOKEN or a
GitHub job with 'id-token: write'.`,
		Example: `  $ thoxbuild sign --new-key release       # writes release.key and release.pub
  $ thoxbuild sign --key release.key
  $ thoxbuild sign --keyless --provenance provenance`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx := c.Context()
			if sf.newKey != "" {
				return newKeyPair(g.streams, sf.newKey)
			}
			p, err := g.load()
			if err != nil {
				return err
			}
			k, err := oneKernel(p, kernel)
			if err != nil {
				return err
			}
			signer, trusted, err := sf.signer(ctx, g.streams)
			if err != nil {
				return err
			}
			if dir == "" {
				dir = outDir(p, k, "")
			}
			b, err := bundle.Read(ctx, dir, bundle.Options{Variants: variants})
			if err != nil {
				return err
			}
			inputs, err := buildInputs(p, k)
			if err != nil {
				return err
			}
			for _, v := range b.Variants {
				if diffs, err := v.Stale(); err != nil || len(diffs) > 0 {
					return findingsError{fmt.Sprintf("variant %s is not what its digest says (%d differences): build it again; nothing of it was signed", v.Name, len(diffs))}
				}
				if err := signVariant(ctx, g.streams, signer, trusted, v); err != nil {
					return fmt.Errorf("variant %s: %w", v.Name, err)
				}
				if provenance == "" {
					continue
				}
				text, err := sign.Provenance(v, inputs)
				if err != nil {
					return err
				}
				signed, err := signer.Attest(ctx, text)
				if err != nil {
					return err
				}
				if err := os.MkdirAll(provenance, 0o755); err != nil {
					return err
				}
				name := provenanceFile(provenance, v.Name)
				if err := renameio.WriteFile(name, signed, 0o644); err != nil {
					return err
				}
				fmt.Fprintln(g.streams.Out, name)
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&sf.key, "key", "", "private key `FILE`")
	f.BoolVar(&sf.keyless, "keyless", false, "sign as the identity of the CI job")
	f.StringVar(&sf.newKey, "new-key", "", "make a key pair, `PREFIX`.key and PREFIX.pub, and sign nothing")
	f.StringVar(&sf.fulcio, "fulcio", sign.PublicFulcio, "address of the certificate authority")
	f.StringVar(&sf.rekor, "rekor", sign.PublicRekor, "address of the transparency log")
	f.StringVar(&sf.trustedRoot, "trusted-root", "", "trusted_root.json `FILE` of a private authority and log")
	f.StringVar(&kernel, "kernel", "", "which kernel of the workspace")
	f.StringVar(&dir, "dir", "", "folder of the variants (default build/ beside build.toml)")
	f.StringSliceVar(&variants, "variant", nil, "only variants whose names match `GLOB`")
	f.StringVar(&provenance, "provenance", "", "also write signed provenance statements to `DIR`")
	return c
}

// signVariant writes the bundle, unless one that this key made still holds.
func signVariant(ctx context.Context, s *Streams, signer *sign.Signer, trusted *sign.Policy, v *bundle.Variant) error {
	data, err := os.ReadFile(filepath.Join(v.Dir, manifests.MetadataFile))
	if err != nil {
		return err
	}
	path := filepath.Join(v.Dir, manifests.SignatureFile)
	if old, err := os.ReadFile(path); err == nil && trusted != nil && trusted.Check("", data, old) == nil {
		s.notef("%s is signed already", v.Name)
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	sig, err := signer.Sign(ctx, data)
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(path, sig, 0o644); err != nil {
		return err
	}
	fmt.Fprintln(s.Out, path)
	return nil
}

// signatureGate refuses a signature that an earlier build left behind.
func signatureGate(_ context.Context, b *bundle.Bundle) error {
	for _, v := range b.Variants {
		sig, err := os.ReadFile(filepath.Join(v.Dir, manifests.SignatureFile))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		data, err := os.ReadFile(filepath.Join(v.Dir, manifests.MetadataFile))
		if err != nil {
			return err
		}
		if err := sign.Signs(data, sig); err != nil {
			return fmt.Errorf("variant %s: %s is not a signature of its metadata (%w); sign it again or remove the file", v.Name, manifests.SignatureFile, err)
		}
	}
	return nil
}

// signer makes what signs and, for a local key, the policy that believes it.
func (sf *signFlags) signer(ctx context.Context, s *Streams) (*sign.Signer, *sign.Policy, error) {
	switch {
	case sf.keyless == (sf.key != ""):
		return nil, nil, withHint(usagef("give --key FILE or --keyless"), "'thoxbuild sign --new-key PREFIX' makes a key")
	case sf.key != "":
		b, err := os.ReadFile(sf.key)
		if err != nil {
			return nil, nil, usageError{err}
		}
		k, err := sign.ParseKey(b, func() ([]byte, error) { return keyPassword(s, "password of "+sf.key+": ") })
		if err != nil {
			return nil, nil, usageError{fmt.Errorf("%s: %w", sf.key, err)}
		}
		pub, err := k.Public()
		if err != nil {
			return nil, nil, err
		}
		trusted, err := sign.KeyPolicy(pub)
		return sign.WithKey(k), trusted, err
	}
	kl := sign.Keyless{Fulcio: sf.fulcio, Rekor: sf.rekor}
	if sf.trustedRoot != "" {
		tr, err := root.NewTrustedRootFromPath(sf.trustedRoot)
		if err != nil {
			return nil, nil, usageError{err}
		}
		kl.Root = tr
	}
	var err error
	if kl.Token, err = sign.IDToken(ctx, os.Getenv); err != nil {
		return nil, nil, usageError{err}
	}
	signer, err := sign.WithoutKey(kl)
	if err != nil {
		return nil, nil, usageError{err}
	}
	return signer, nil, nil
}

// keyPassword is COSIGN_PASSWORD, which may be empty, or what is typed.
func keyPassword(s *Streams, prompt string) ([]byte, error) {
	if pass, ok := os.LookupEnv("COSIGN_PASSWORD"); ok {
		return []byte(pass), nil
	}
	f, ok := s.In.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil, errors.New("the key needs a password: set COSIGN_PASSWORD")
	}
	fmt.Fprint(s.Err, prompt)
	defer fmt.Fprintln(s.Err)
	return term.ReadPassword(int(f.Fd()))
}

// newKeyPair writes a key pair and replaces none.
func newKeyPair(s *Streams, prefix string) error {
	k, err := sign.NewKey()
	if err != nil {
		return err
	}
	for _, path := range []string{prefix + ".key", prefix + ".pub"} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return usagef("%s is there already; choose another prefix", path)
		}
	}
	pass, err := keyPassword(s, "password for the new key: ")
	if err != nil {
		return usageError{err}
	}
	sealed, err := k.Encrypt(pass)
	if err != nil {
		return err
	}
	pub, err := k.Public()
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(prefix+".key", sealed, 0o600); err != nil {
		return err
	}
	if err := renameio.WriteFile(prefix+".pub", pub, 0o644); err != nil {
		return err
	}
	fmt.Fprintln(s.Out, prefix+".pub")
	return nil
}

// buildInputs are the digests of what a build of the kernel reads.
func buildInputs(p *manifests.Project, k *manifests.Kernel) ([]sign.Input, error) {
	paths := map[string]bool{filepath.Join(k.Dir, "build.toml"): true}
	for _, f := range []string{filepath.Join(p.Workspace.Dir, "build.toml"), lockPath(p)} {
		if _, err := os.Stat(f); err == nil {
			paths[f] = true
		}
	}
	add := func(list []string) {
		for _, f := range list {
			paths[filepath.Join(k.Dir, filepath.FromSlash(f))] = true
		}
	}
	for _, s := range k.Sections {
		add(s.Src)
	}
	if k.Torch != nil {
		add(k.Torch.Src)
	}
	var out []sign.Input
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, usageError{fmt.Errorf("provenance: %w", err)}
		}
		rel, err := filepath.Rel(p.Workspace.Dir, path)
		if err != nil || strings.HasPrefix(rel, "..") {
			rel = filepath.Base(path)
		}
		out = append(out, sign.NewInput(filepath.ToSlash(rel), b))
	}
	return out, nil
}

// trustFlags read the policy of --key or --policy, or nil.
func trustFlags(key, policy string) (*sign.Policy, error) {
	switch {
	case key != "" && policy != "":
		return nil, usagef("give --key or --policy, not both")
	case key != "":
		b, err := os.ReadFile(key)
		if err != nil {
			return nil, usageError{err}
		}
		p, err := sign.KeyPolicy(b)
		if err != nil {
			return nil, usageError{fmt.Errorf("%s: %w", key, err)}
		}
		return p, nil
	case policy != "":
		p, err := sign.LoadPolicy(policy)
		if err != nil {
			return nil, usageError{err}
		}
		return p, nil
	}
	return nil, nil
}
