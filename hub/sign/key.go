package sign

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	common "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	sigstore "github.com/sigstore/sigstore-go/pkg/sign"
)

// The PEM types of private keys: cosign's own, its former name, and the two
// plain ones.
const (
	pemSigstore = "ENCRYPTED SIGSTORE PRIVATE KEY"
	pemCosign   = "ENCRYPTED COSIGN PRIVATE KEY"
	pemPKCS8    = "PRIVATE KEY"
	pemEC       = "EC PRIVATE KEY"
	pemPublic   = "PUBLIC KEY"
)

// ErrPassword says that a key is encrypted and the password does not open it.
var ErrPassword = errors.New("wrong password")

// Key is an ECDSA P-256 private key.
type Key struct{ priv *ecdsa.PrivateKey }

var _ sigstore.Keypair = (*Key)(nil)

// NewKey makes a key.
func NewKey() (*Key, error) {
	priv, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	return &Key{priv}, err
}

// ParseKey reads a private key in PEM. Password is asked for only if the key
// is encrypted.
func ParseKey(data []byte, password func() ([]byte, error)) (*Key, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("private key: expected PEM")
	}
	der := block.Bytes
	switch block.Type {
	case pemSigstore, pemCosign:
		pass, err := password()
		if err != nil {
			return nil, err
		}
		if der, err = encrypted.Decrypt(block.Bytes, pass); err != nil {
			return nil, fmt.Errorf("private key: %w", ErrPassword)
		}
	case pemPKCS8:
	case pemEC:
		priv, err := x509.ParseECPrivateKey(der)
		if err != nil {
			return nil, fmt.Errorf("private key: %w", err)
		}
		return newKey(priv)
	default:
		return nil, fmt.Errorf("private key: PEM type %q: expected %s or %s", block.Type, pemSigstore, pemPKCS8)
	}
	priv, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	return newKey(priv)
}

func newKey(priv crypto.PrivateKey) (*Key, error) {
	ec, ok := priv.(*ecdsa.PrivateKey)
	if !ok || ec.Curve != elliptic.P256() {
		return nil, errors.New("private key: expected ECDSA on P-256")
	}
	return &Key{ec}, nil
}

// Encrypt prints the key as cosign keeps it.
func (k *Key) Encrypt(password []byte) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.priv)
	if err != nil {
		return nil, err
	}
	sealed, err := encrypted.Encrypt(der, password)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemSigstore, Bytes: sealed}), nil
}

// Public prints the public key in PEM.
func (k *Key) Public() ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(k.priv.Public())
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemPublic, Bytes: der}), nil
}

// parsePublic reads a public key in PEM and returns it with its hint.
func parsePublic(data []byte) (*ecdsa.PublicKey, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != pemPublic {
		return nil, fmt.Errorf("public key: expected PEM of type %s", pemPublic)
	}
	pub, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	ec, ok := pub.(*ecdsa.PublicKey)
	if !ok || ec.Curve != elliptic.P256() {
		return nil, errors.New("public key: expected ECDSA on P-256")
	}
	return ec, nil
}

// GetHashAlgorithm implements sigstore's Keypair.
func (k *Key) GetHashAlgorithm() common.HashAlgorithm { return common.HashAlgorithm_SHA2_256 }

// GetSigningAlgorithm implements sigstore's Keypair.
func (k *Key) GetSigningAlgorithm() common.PublicKeyDetails {
	return common.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256
}

// GetHint implements sigstore's Keypair: the digest of the public key.
func (k *Key) GetHint() []byte {
	der, err := x509.MarshalPKIXPublicKey(k.priv.Public())
	if err != nil {
		return nil
	}
	sum := sha256.Sum256(der)
	return []byte(base64.StdEncoding.EncodeToString(sum[:]))
}

// GetKeyAlgorithm implements sigstore's Keypair.
func (k *Key) GetKeyAlgorithm() string { return "ECDSA" }

// GetPublicKey implements sigstore's Keypair.
func (k *Key) GetPublicKey() crypto.PublicKey { return k.priv.Public() }

// GetPublicKeyPem implements sigstore's Keypair.
func (k *Key) GetPublicKeyPem() (string, error) {
	b, err := k.Public()
	return string(b), err
}

// SignData implements sigstore's Keypair: the signature and what it signs.
func (k *Key) SignData(_ context.Context, data []byte) ([]byte, []byte, error) {
	sum := sha256.Sum256(data)
	sig, err := ecdsa.SignASN1(rand.Reader, k.priv, sum[:])
	return sig, sum[:], err
}
