package sign

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thox-ai/thoxbuild/hub/bundle"
	"github.com/thox-ai/thoxbuild/hub/internal/hubtest"
)

var metadata = []byte(`{"name":"demo"}` + "\n")

func mustKey(t testing.TB) (*Key, []byte) {
	t.Helper()
	k, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	pub, err := k.Public()
	if err != nil {
		t.Fatal(err)
	}
	return k, pub
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A key survives its encrypted form, and only its password opens it.
func TestKeyFile(t *testing.T) {
	k, pub := mustKey(t)
	sealed, err := k.Encrypt([]byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(sealed, []byte("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----")) {
		t.Errorf("not cosign's form: %.60s", sealed)
	}
	again, err := ParseKey(sealed, func() ([]byte, error) { return []byte("secret"), nil })
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := again.Public(); !bytes.Equal(got, pub) {
		t.Error("another key came back")
	}
	if _, err := ParseKey(sealed, func() ([]byte, error) { return []byte("wrong"), nil }); !errors.Is(err, ErrPassword) {
		t.Errorf("wrong password: %v", err)
	}
	for _, bad := range []string{"", "x", string(pub)} {
		if _, err := ParseKey([]byte(bad), nil); err == nil {
			t.Errorf("%q was taken for a private key", bad)
		}
	}
}

// A signature holds for the exact bytes and the one key; a bundle that was
// changed in any one place does not hold for anything.
func TestKeySignature(t *testing.T) {
	k, pub := mustKey(t)
	_, otherPub := mustKey(t)
	sig, err := WithKey(k).Sign(t.Context(), metadata)
	if err != nil {
		t.Fatal(err)
	}
	p, err := KeyPolicy(pub)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check("thox-ai/demo", metadata, sig); err != nil {
		t.Fatal(err)
	}
	other, err := KeyPolicy(otherPub)
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"other bytes": p.Check("thox-ai/demo", append(metadata, ' '), sig),
		"other key":   other.Check("thox-ai/demo", metadata, sig),
		"unsigned":    p.Check("thox-ai/demo", metadata, nil),
		"not json":    p.Check("thox-ai/demo", metadata, []byte("{")),
		"huge":        p.Check("thox-ai/demo", metadata, make([]byte, maxBundle+1)),
	} {
		if !errors.Is(err, ErrUntrusted) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var b struct {
		MessageSignature struct {
			Signature string
		}
	}
	if err := json.Unmarshal(sig, &b); err != nil || len(b.MessageSignature.Signature) < 64 {
		t.Fatalf("%v in %s", err, sig)
	}
	s := b.MessageSignature.Signature
	for i := 8; i < 60; i += 7 {
		c := byte('A')
		if s[i] == 'A' {
			c = 'B'
		}
		forged := strings.Replace(string(sig), s, s[:i]+string(c)+s[i+1:], 1)
		if err := p.Check("thox-ai/demo", metadata, []byte(forged)); !errors.Is(err, ErrUntrusted) {
			t.Errorf("signature changed at %d: %v", i, err)
		}
	}
}

func TestPolicyFile(t *testing.T) {
	k, pub := mustKey(t)
	sig, err := WithKey(k).Sign(t.Context(), metadata)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.pub"), string(pub))
	file := filepath.Join(dir, "policy.toml")
	for _, bad := range []struct{ text, want string }{
		{"", "trusts nobody"},
		{"signers = 1", "unknown key"},
		{"[[signer]]", "give a key"},
		{"[[signer]]\nkey = 'a.pub'\nissuer = 'https://i'", "give a key, or"},
		{"[[signer]]\nissuer = 'https://i'", "identity"},
		{"[[signer]]\nissuer = 'https://i'\nidentity = 'a'\nidentity-regexp = 'b'", "either"},
		{"[[signer]]\nissuer = 'https://i'\nidentity-regexp = '('", "missing closing"},
		{"[[signer]]\nkey = 'missing.pub'", "missing.pub"},
		{"[[signer]]\nkey = 'policy.toml'", "expected PEM"},
		{"[[signer]]\nkey = 'a.pub'\nrepository = '['", "syntax error in pattern"},
		{"trusted-root = 'none.json'\n[[signer]]\nkey = 'a.pub'", "none.json"},
	} {
		write(t, file, bad.text)
		if _, err := LoadPolicy(file); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%q: %v, want %q", bad.text, err, bad.want)
		}
	}
	write(t, file, "[[signer]]\nkey = 'a.pub'\nrepository = 'thox-ai/*'")
	p, err := LoadPolicy(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check("thox-ai/demo", metadata, sig); err != nil {
		t.Error(err)
	}
	if err := p.Check("evil/demo", metadata, sig); !errors.Is(err, ErrUntrusted) || !strings.Contains(err.Error(), "names no signer for evil/demo") {
		t.Errorf("another repository: %v", err)
	}
}

// The statement names every file and input, is the same each time, and its
// signed form holds for those digests only.
func TestProvenance(t *testing.T) {
	dir := t.TempDir()
	hubtest.WriteVariant(t, dir, hubtest.VariantA, 2, hubtest.Sample("a"), nil)
	b, err := bundle.Read(t.Context(), dir, bundle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	inputs := []Input{{"toolchain.lock", strings.Repeat("b", 64)}, {"build.toml", strings.Repeat("a", 64)}}
	text, err := Provenance(b.Variants[0], inputs)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := Provenance(b.Variants[0], []Input{inputs[1], inputs[0]}); !bytes.Equal(text, again) {
		t.Error("the statement depends on the order of the inputs")
	}
	var s statement
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	if len(s.Subject) != len(b.Variants[0].Files) || len(s.Predicate.BuildDefinition.Dependencies) != 3 {
		t.Errorf("%d subjects of %d files, %d dependencies", len(s.Subject), len(b.Variants[0].Files), len(s.Predicate.BuildDefinition.Dependencies))
	}
	k, pub := mustKey(t)
	signed, err := WithKey(k).Attest(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := KeyPolicy(pub)
	if err != nil {
		t.Fatal(err)
	}
	so := sha256.Sum256([]byte(hubtest.Sample("a")["_demo.abi3.so"]))
	r, err := p.CheckStatement("thox-ai/demo", so[:], signed)
	if err != nil {
		t.Fatal(err)
	}
	if r.Statement == nil || r.Statement.PredicateType != "https://slsa.dev/provenance/v1" {
		t.Errorf("%+v", r.Statement)
	}
	so[0]++
	if _, err := p.CheckStatement("thox-ai/demo", so[:], signed); !errors.Is(err, ErrUntrusted) {
		t.Errorf("a file that the statement does not name: %v", err)
	}
	meta, err := os.ReadFile(filepath.Join(b.Variants[0].Dir, "metadata.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CheckProvenance("thox-ai/demo", hubtest.VariantA, meta, signed); err != nil {
		t.Error(err)
	}
	plain, err := WithKey(k).Sign(t.Context(), meta)
	if err != nil {
		t.Fatal(err)
	}
	_, otherPub := mustKey(t)
	other, err := KeyPolicy(otherPub)
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"none":                      p.CheckProvenance("thox-ai/demo", hubtest.VariantA, meta, nil),
		"of another variant":        p.CheckProvenance("thox-ai/demo", hubtest.VariantB, meta, signed),
		"of another build":          p.CheckProvenance("thox-ai/demo", hubtest.VariantA, append(meta, ' '), signed),
		"a signature, no statement": p.CheckProvenance("thox-ai/demo", hubtest.VariantA, meta, plain),
		"by another key":            other.CheckProvenance("thox-ai/demo", hubtest.VariantA, meta, signed),
	} {
		if !errors.Is(err, ErrUntrusted) {
			t.Errorf("provenance %s: %v", name, err)
		}
	}
}
