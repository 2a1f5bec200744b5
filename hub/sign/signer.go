package sign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	sigstore "github.com/sigstore/sigstore-go/pkg/sign"
	"google.golang.org/protobuf/encoding/protojson"
)

// StatementType is the payload type of in-toto statements.
const StatementType = "application/vnd.in-toto+json"

// Signer signs bytes and statements.
type Signer struct {
	key *Key
	// What keyless signing needs; nil with a local key.
	keyless *Keyless
}

// WithKey signs with a local key, without a network.
func WithKey(k *Key) *Signer { return &Signer{key: k} }

// Keyless says where a certificate for a fresh key comes from and which log
// records the signature.
type Keyless struct {
	// Fulcio and Rekor are the addresses of the authority and the log.
	Fulcio, Rekor string
	// Token is an OIDC token for the audience "sigstore". It is sent to
	// Fulcio only and never printed.
	Token string
	// Root checks what came back before it is used; nil skips that.
	Root root.TrustedMaterial
}

// The public services.
const (
	PublicFulcio = "https://fulcio.sigstore.dev"
	PublicRekor  = "https://rekor.sigstore.dev"
)

// WithoutKey signs as the identity in the token.
func WithoutKey(k Keyless) (*Signer, error) {
	if k.Token == "" {
		return nil, errors.New("keyless: no identity token")
	}
	for _, u := range []string{k.Fulcio, k.Rekor} {
		p, err := url.Parse(u)
		if err != nil || p.Host == "" || p.Scheme != "https" && !loopback(p.Hostname()) {
			return nil, fmt.Errorf("keyless: address %q: expected https://HOST", u)
		}
	}
	return &Signer{keyless: &k}, nil
}

func loopback(host string) bool { return host == "127.0.0.1" || host == "localhost" || host == "::1" }

// Sign returns a bundle over the exact bytes.
func (s *Signer) Sign(ctx context.Context, data []byte) ([]byte, error) {
	return s.bundle(ctx, &sigstore.PlainData{Data: data})
}

// Attest returns a bundle that holds a signed in-toto statement.
func (s *Signer) Attest(ctx context.Context, statement []byte) ([]byte, error) {
	return s.bundle(ctx, &sigstore.DSSEData{Data: statement, PayloadType: StatementType})
}

func (s *Signer) bundle(ctx context.Context, content sigstore.Content) ([]byte, error) {
	o := sigstore.BundleOptions{Context: ctx}
	var pair sigstore.Keypair = s.key
	if k := s.keyless; k != nil {
		fresh, err := NewKey() // lives for this signature
		if err != nil {
			return nil, err
		}
		pair = fresh
		o.CertificateProvider = sigstore.NewFulcio(&sigstore.FulcioOptions{BaseURL: k.Fulcio, Timeout: 30 * time.Second, Retries: 2})
		o.CertificateProviderOptions = &sigstore.CertificateProviderOptions{IDToken: k.Token}
		o.TransparencyLogs = []sigstore.Transparency{sigstore.NewRekor(&sigstore.RekorOptions{BaseURL: k.Rekor, Timeout: 30 * time.Second, Retries: 2})}
		o.TrustedRoot = k.Root
	}
	b, err := sigstore.Bundle(content, pair, o)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	out, err := protojson.Marshal(b)
	if err != nil {
		return nil, err
	}
	// protojson varies its spaces on purpose; a file should not.
	var v any
	if err := json.Unmarshal(out, &v); err != nil {
		return nil, err
	}
	out, err = json.Marshal(v)
	return append(out, '\n'), err
}

// IDToken finds the token of the CI job: SIGSTORE_ID_TOKEN (GitLab and others
// set it), else what GitHub's runner hands out on request.
func IDToken(ctx context.Context, getenv func(string) string) (string, error) {
	if t := getenv("SIGSTORE_ID_TOKEN"); t != "" {
		return t, nil
	}
	address, bearer := getenv("ACTIONS_ID_TOKEN_REQUEST_URL"), getenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN")
	if address == "" || bearer == "" {
		return "", errors.New("keyless: no identity: set SIGSTORE_ID_TOKEN, or give the GitHub job 'permissions: id-token: write'")
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("keyless: ACTIONS_ID_TOKEN_REQUEST_URL: %w", err)
	}
	q := u.Query()
	q.Set("audience", "sigstore")
	u.RawQuery = q.Encode()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("keyless: ask the runner for a token: %w", err)
	}
	defer resp.Body.Close()
	var answer struct{ Value string }
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("keyless: ask %s for a token: %s", u.Host, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&answer); err != nil || answer.Value == "" {
		return "", errors.New("keyless: the runner's answer holds no token")
	}
	return answer.Value, nil
}
