package remote

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/thox-ai/thoxbuild/compile/action/actiontest"
)

func TestConfig(t *testing.T) {
	for text, want := range map[string]string{
		"grpc://cluster.example:8980":         "",
		"grpcs://[::1]:443/":                  "",
		"unix:///run/casd":                    "",
		"http://cluster.example:80":           "begins with grpc://, grpcs:// or unix://",
		"cluster.example:8980":                "begins with grpc://",
		"grpc://cluster.example":              "expected a host and a port",
		"grpc://:8980":                        "expected a host and a port",
		"grpc://cluster.example:8980/v2?x=1":  "expected a host and a port",
		"unix://run/casd":                     "absolute path of a socket",
		"grpcs://me:hunter2@cluster.test:443": "holds a name or password",
		"grpc://hunter2\x7f:1":                "is no URL",
	} {
		_, err := New(Config{URL: text}, nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the error repeats a secret: %v", text, err)
		}
	}
	secret := map[string]string{"authorization": "hunter2"}
	for want, c := range map[string]Config{
		"in the clear":                        {URL: "grpc://cluster.example:8980", Headers: secret},
		"does not use TLS":                    {URL: "grpc://cluster.example:8980", CA: "x"},
		"needed together":                     {URL: "grpcs://cluster.example:8980", Cert: "x"},
		"no such file":                        {URL: "grpcs://cluster.example:8980", CA: "/no/such/file"},
		"holds no certificate":                {URL: "grpcs://cluster.example:8980", CA: "endpoint_test.go"},
		"may carry":                           {URL: "grpcs://cluster.example:8980", Headers: map[string]string{"grpc-timeout": "1"}},
		"client certificate endpoint_test.go": {URL: "grpcs://cluster.example:8980", Cert: "endpoint_test.go", Key: "endpoint_test.go"},
	} {
		_, err := New(c, nil)
		var bad *ConfigError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), want) || bad.UserHint() == "" || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v, want %q and a hint", c, err, want)
		}
	}
	for _, url := range []string{"grpc://127.0.0.1:8980", "grpc://localhost:1", "grpcs://cluster.example:1", "unix:///run/casd"} {
		if _, err := New(Config{URL: url, Headers: secret}, nil); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// pair makes a certificate for 127.0.0.1 and writes it and its key.
func pair(t *testing.T, dir, name string) (tls.Certificate, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	if err := errors.Join(os.WriteFile(filepath.Join(dir, name+".pem"), certPEM, 0o600), os.WriteFile(filepath.Join(dir, name+".key"), keyPEM, 0o600)); err != nil {
		t.Fatal(err)
	}
	both, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return both, parsed
}

// TestTLS reaches a server that wants a certificate of its clients, and a
// header; without either it fails, and with the right ones nothing that is
// printed holds the secret.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	serverPair, _ := pair(t, dir, "server")
	_, client := pair(t, dir, "client")
	trusted := x509.NewCertPool()
	trusted.AddCert(client)
	s, url := newServer(t, &tls.Config{Certificates: []tls.Certificate{serverPair}, ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert})
	s.fail = func(method string) error {
		if got := strings.Join(s.headers.Get("authorization"), ","); got != "Bearer hunter2" {
			return status.Errorf(codes.Unauthenticated, "who is %q?", got)
		}
		return nil
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	m := &actiontest.Memory{}
	do := func(c Config) error {
		c.URL = url
		_, err := newExecutor(t, c).Run(t.Context(), m.Request(t, copying(m, "x")), m)
		return err
	}
	good := Config{CA: file("server.pem"), Cert: file("client.pem"), Key: file("client.key"), Headers: map[string]string{"Authorization": "Bearer hunter2"}}
	if err := do(good); err != nil {
		t.Error(err)
	}
	wrong := good
	wrong.Headers = map[string]string{"Authorization": "Bearer hunter3"}
	if err := do(wrong); err == nil || strings.Contains(err.Error(), "hunter3") || !strings.Contains(err.Error(), "(secret)") {
		t.Errorf("another token: %v", err)
	}
	wrong = good
	wrong.Cert, wrong.Key = "", ""
	if err := do(wrong); err == nil {
		t.Error("no client certificate was needed")
	}
	wrong = good
	wrong.CA = ""
	if err := do(wrong); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server that nobody trusts: %v", err)
	}
}

// A server that is not there is given up on soon, with its address.
func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	m := &actiontest.Memory{}
	_, err = newExecutor(t, Config{URL: "grpc://" + addr}).Run(t.Context(), m.Request(t, copying(m, "x")), m)
	var e *Error
	if !errors.As(err, &e) || !strings.Contains(err.Error(), "grpc://"+addr+": ask for its capabilities: ") || e.UserHint() == "" {
		t.Errorf("%v", err)
	}
}

// Whatever is accepted has one target, and what is refused does not repeat a
// password.
func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"grpc://cluster.example:8980", "grpcs://me:hunter2@[::1]:443", "unix:///run/casd", "grpc://%zz:1", "grpc://a:b:c", "hunter2@0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseURL(text)
		if err != nil {
			if got != (target{}) {
				t.Errorf("%q: %+v and an error", text, got)
			}
			if strings.Contains(text, "hunter2@") && strings.Contains(err.Error(), "hunter2@") {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if strings.Contains(got.grpc, "@") && !strings.HasPrefix(got.grpc, "unix:") {
			t.Errorf("%q: %q", text, got.grpc)
		}
		if !strings.HasPrefix(got.grpc, "dns:///") && !strings.HasPrefix(got.grpc, "unix:///") || got.tls && strings.HasPrefix(got.grpc, "unix:") {
			t.Errorf("%q: %+v", text, got)
		}
	})
}
