package sign

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-openapi/runtime"
	"github.com/sigstore/rekor/pkg/generated/models"
	"github.com/sigstore/rekor/pkg/types"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/thox-ai/thoxbuild/hub/bundle"
	"github.com/thox-ai/thoxbuild/hub/internal/hubtest"
)

const (
	testIssuer   = "https://ci.example.org"
	testIdentity = "https://github.com/thox-ai/demo/.github/workflows/release.yml@refs/heads/main"
	testSource   = "https://github.com/thox-ai/demo"
)

// standIn is a certificate authority and a log on this machine, with the wire
// forms of the public ones.
type standIn struct {
	*ca.VirtualSigstore
	rootCert, interCert *x509.Certificate
	interKey            *ecdsa.PrivateKey
	token               string
	entries             int
}

// FulcioCertificateAuthorities implements root.TrustedMaterial.
func (s *standIn) FulcioCertificateAuthorities() []root.CertificateAuthority {
	return []root.CertificateAuthority{&root.FulcioCertificateAuthority{
		Root: s.rootCert, Intermediates: []*x509.Certificate{s.interCert},
		ValidityPeriodStart: time.Now().Add(-time.Hour), ValidityPeriodEnd: time.Now().Add(time.Hour),
	}}
}

// CTLogs implements root.TrustedMaterial: this authority keeps none.
func (s *standIn) CTLogs() map[string]*root.TransparencyLog { return nil }

func newStandIn(t *testing.T) (*standIn, *httptest.Server) {
	t.Helper()
	virtual, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	s := &standIn{VirtualSigstore: virtual, token: jwt(map[string]any{"iss": testIssuer, "sub": "repo:thox-ai/demo", "aud": "sigstore"})}
	rootCert, rootKey, err := ca.GenerateRootCa()
	if err != nil {
		t.Fatal(err)
	}
	s.rootCert = rootCert
	if s.interCert, s.interKey, err = ca.GenerateFulcioIntermediate(rootCert, rootKey); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	handle := func(path string, fn func(http.ResponseWriter, *http.Request) error) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if err := fn(w, r); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
			}
		})
	}
	handle("POST /api/v2/signingCert", s.certify)
	handle("POST /api/v1/log/entries", s.record)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return s, srv
}

// jwt is an unsigned token: the stand-in compares it as a whole.
func jwt(claims map[string]any) string {
	b, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	e := base64.RawURLEncoding
	return e.EncodeToString([]byte(`{"alg":"none"}`)) + "." + e.EncodeToString(b) + "." + e.EncodeToString([]byte("sig"))
}

// certify answers as Fulcio: the token says who, the proof that the key is
// theirs.
func (s *standIn) certify(w http.ResponseWriter, r *http.Request) error {
	if r.Header.Get("Authorization") != "Bearer "+s.token {
		return errors.New("unknown token")
	}
	var in struct {
		PublicKeyRequest struct {
			PublicKey         struct{ Content string }
			ProofOfPossession []byte
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return err
	}
	pub, err := parsePublic([]byte(in.PublicKeyRequest.PublicKey.Content))
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte("repo:thox-ai/demo"))
	if !ecdsa.VerifyASN1(pub, sum[:], in.PublicKeyRequest.ProofOfPossession) {
		return errors.New("no proof of possession")
	}
	san, err := url.Parse(testIdentity)
	if err != nil {
		return err
	}
	source, err := asn1.MarshalWithParams(testSource, "utf8")
	if err != nil {
		return err
	}
	oid := func(n int) asn1.ObjectIdentifier { return asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, n} }
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(7), URIs: []*url.URL{san}, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(10 * time.Minute),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
		ExtraExtensions: []pkix.Extension{{Id: oid(1), Value: []byte(testIssuer)}, {Id: oid(12), Value: source}},
	}, s.interCert, pub, s.interKey)
	if err != nil {
		return err
	}
	block := func(der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	return json.NewEncoder(w).Encode(map[string]any{"signedCertificateEmbeddedSct": map[string]any{
		"chain": map[string]any{"certificates": []string{block(der), block(s.interCert.Raw)}},
	}})
}

// record answers as Rekor: it checks the entry, stores its canonical form and
// signs the time and the place in the log.
func (s *standIn) record(w http.ResponseWriter, r *http.Request) error {
	proposed, err := models.UnmarshalProposedEntry(r.Body, runtime.JSONConsumer())
	if err != nil {
		return err
	}
	entry, err := types.UnmarshalEntry(proposed)
	if err != nil {
		return err
	}
	body, err := types.CanonicalizeEntry(context.Background(), entry)
	if err != nil {
		return err
	}
	logID, err := s.RekorLogID()
	if err != nil {
		return err
	}
	id, err := hex.DecodeString(logID)
	if err != nil {
		return err
	}
	now := time.Now().Unix()
	set, err := s.RekorSignPayload(tlog.RekorPayload{Body: base64.StdEncoding.EncodeToString(body), IntegratedTime: now, LogIndex: 1000, LogID: logID})
	if err != nil {
		return err
	}
	proof, err := s.GetInclusionProof(body)
	if err != nil {
		return err
	}
	s.entries++
	const uuid = "24296fb24b8ad77a0000000000000000000000000000000000000000000000000000000000000001"
	index, logIDHex := int64(1000), hex.EncodeToString(id)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("ETag", uuid)
	w.Header().Set("Location", "/api/v1/log/entries/"+uuid)
	w.WriteHeader(http.StatusCreated)
	return json.NewEncoder(w).Encode(models.LogEntry{uuid: models.LogEntryAnon{
		Body: base64.StdEncoding.EncodeToString(body), IntegratedTime: &now, LogIndex: &index, LogID: &logIDHex,
		Verification: &models.LogEntryAnonVerification{SignedEntryTimestamp: set, InclusionProof: proof},
	}})
}

// Sign as a CI job would, and hold the result against policies that fit and
// that differ in one thing.
func TestKeyless(t *testing.T) {
	s, srv := newStandIn(t)
	signer, err := WithoutKey(Keyless{Fulcio: srv.URL, Rekor: srv.URL, Token: s.token, Root: s})
	if err != nil {
		t.Fatal(err)
	}
	sig, err := signer.Sign(t.Context(), metadata)
	if err != nil {
		t.Fatal(err)
	}
	if s.entries != 1 || strings.Contains(string(sig), s.token) {
		t.Errorf("%d entries in the log; the token must not be in the bundle", s.entries)
	}
	good := Allowed{Repository: "thox-ai/*", Issuer: testIssuer, Identity: testIdentity, SourceRepository: testSource}
	check := func(edit func(*Allowed), tm root.TrustedMaterial) error {
		a := good
		if edit != nil {
			edit(&a)
		}
		return (&Policy{Signers: []Allowed{a}, material: tm}).Check("thox-ai/demo", metadata, sig)
	}
	if err := check(nil, s); err != nil {
		t.Fatal(err)
	}
	if err := check(func(a *Allowed) {
		a.Identity, a.IdentityRegexp = "", `https://github\.com/thox-ai/demo/\.github/workflows/release\.yml@.*`
	}, s); err != nil {
		t.Error(err)
	}
	stranger, _ := newStandIn(t)
	for name, err := range map[string]error{
		"issuer":            check(func(a *Allowed) { a.Issuer = "https://evil.example.org" }, s),
		"identity":          check(func(a *Allowed) { a.Identity += "x" }, s),
		"part of identity":  check(func(a *Allowed) { a.Identity, a.IdentityRegexp = "", "https://github.com/thox-ai" }, s),
		"source repository": check(func(a *Allowed) { a.SourceRepository = "https://github.com/evil/demo" }, s),
		"repository":        check(func(a *Allowed) { a.Repository = "evil/*" }, s),
		"authority and log": check(nil, stranger),
	} {
		if !errors.Is(err, ErrUntrusted) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	if err := (&Policy{Signers: []Allowed{good}, material: s}).Check("thox-ai/demo", []byte("other"), sig); !errors.Is(err, ErrUntrusted) {
		t.Errorf("other bytes: %v", err)
	}

	bad, err := WithoutKey(Keyless{Fulcio: srv.URL, Rekor: srv.URL, Token: jwt(map[string]any{"sub": "x", "iss": testIssuer}), Root: s})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bad.Sign(t.Context(), metadata); err == nil || strings.Contains(err.Error(), bad.keyless.Token) {
		t.Errorf("a token that the authority does not know: %v", err)
	}
}

// A provenance statement, signed as a CI job and recorded in the log.
func TestKeylessProvenance(t *testing.T) {
	s, srv := newStandIn(t)
	signer, err := WithoutKey(Keyless{Fulcio: srv.URL, Rekor: srv.URL, Token: s.token, Root: s})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	hubtest.WriteVariant(t, dir, hubtest.VariantA, 1, hubtest.Sample("a"), nil)
	b, err := bundle.Read(t.Context(), dir, bundle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := Provenance(b.Variants[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Attest(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	meta, err := os.ReadFile(filepath.Join(b.Variants[0].Dir, "metadata.json"))
	if err != nil {
		t.Fatal(err)
	}
	p := &Policy{material: s, Signers: []Allowed{{Issuer: testIssuer, Identity: testIdentity, SourceRepository: testSource}}}
	if err := p.CheckProvenance("thox-ai/demo", hubtest.VariantA, meta, signed); err != nil || s.entries != 1 {
		t.Errorf("%d entries in the log, %v", s.entries, err)
	}
	p.Signers[0].SourceRepository = "https://github.com/evil/demo"
	if err := p.CheckProvenance("thox-ai/demo", hubtest.VariantA, meta, signed); !errors.Is(err, ErrUntrusted) {
		t.Errorf("of another source repository: %v", err)
	}
}

func TestKeylessAddresses(t *testing.T) {
	for _, u := range []string{"", "http://fulcio.example.org", "fulcio.example.org"} {
		if _, err := WithoutKey(Keyless{Fulcio: u, Rekor: PublicRekor, Token: "t"}); err == nil {
			t.Errorf("%q was accepted: the token would leave in the clear", u)
		}
	}
}

func TestIDToken(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer runner" || r.URL.Query().Get("audience") != "sigstore" || r.URL.Query().Get("v") != "1" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, `{"value":"job-token"}`)
	}))
	defer srv.Close()
	env := func(m map[string]string) func(string) string { return func(k string) string { return m[k] } }
	for _, test := range []struct {
		env        map[string]string
		want, fail string
	}{
		{map[string]string{"SIGSTORE_ID_TOKEN": "x"}, "x", ""},
		{map[string]string{"ACTIONS_ID_TOKEN_REQUEST_URL": srv.URL + "?v=1", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "runner"}, "job-token", ""},
		{map[string]string{"ACTIONS_ID_TOKEN_REQUEST_URL": srv.URL + "?v=1", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "other"}, "", "403"},
		{nil, "", "SIGSTORE_ID_TOKEN"},
	} {
		got, err := IDToken(t.Context(), env(test.env))
		if got != test.want || (err == nil) != (test.fail == "") || err != nil && !strings.Contains(err.Error(), test.fail) {
			t.Errorf("%v: %q, %v", test.env, got, err)
		}
	}
}
