package remote

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/textproto"
	"net/url"
	"os"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Config says where a cluster is and who asks.
type Config struct {
	// URL is grpc://HOST:PORT, grpcs://HOST:PORT (TLS) or unix:///SOCKET.
	URL string
	// Instance is the instance name, empty on most servers.
	Instance string
	// Headers go with every call. The values are secrets: they are in no
	// message, and are sent over TLS or to this machine only.
	Headers map[string]string
	// CA is a file of certificates that are trusted instead of the system's;
	// Cert and Key are files with the client's own. All are PEM and optional.
	CA, Cert, Key string
	// Platform is what the cluster wants to know about the machine that an
	// action needs, such as container-image or Pool.
	Platform map[string]string
	// CacheOnly runs actions here and shares their results through the cluster's
	// action cache.
	CacheOnly bool
	// Tools gives the real folder of a tool by the first name below ToolRoot in
	// a command, and the names of those that have to lie beside it. The error is
	// a HereError for a tool that another machine cannot use.
	Tools func(name string) (dir string, needs []string, err error)
	// ToolRoot is how virtual tool paths begin, such as "/opt/thox/".
	ToolRoot string
	// Log, when set, says what takes long.
	Log func(format string, args ...any)
}

// ConfigError is a Config that cannot be used.
type ConfigError struct {
	err  error
	hint string
}

func (e *ConfigError) Error() string { return e.err.Error() }
func (e *ConfigError) Unwrap() error { return e.err }

// UserHint is the one thing to do about it.
func (e *ConfigError) UserHint() string { return e.hint }

// target is where to dial.
type target struct {
	grpc  string // in grpc's words
	tls   bool
	local bool // bytes never leave this machine
}

const urlForms = "give grpc://HOST:PORT, grpcs://HOST:PORT for TLS, or unix:///SOCKET"

func parseURL(text string) (target, error) {
	bad := func(format string, args ...any) (target, error) {
		return target{}, &ConfigError{fmt.Errorf(format, args...), urlForms}
	}
	u, err := url.Parse(text)
	if err != nil {
		return bad("the address of the cluster is no URL") // the error repeats the text, which may hold a secret
	}
	if strings.Contains(text, "@") && !strings.HasPrefix(text, "unix:///") { // also where what stands around it is no URL
		return target{}, &ConfigError{errors.New("the address of the cluster holds a name or password"),
			"take it out, and pass credentials with --remote-header NAME=VARIABLE"}
	}
	switch u.Scheme {
	case "unix":
		if u.Host != "" || !strings.HasPrefix(u.Path, "/") {
			return bad("%s: expected an absolute path of a socket", text)
		}
		return target{grpc: "unix://" + u.Path, local: true}, nil
	case "grpc", "grpcs":
	default:
		return bad("%s: the address of a cluster begins with grpc://, grpcs:// or unix://", text)
	}
	if u.Port() == "" || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return bad("%s://%s: expected a host and a port and nothing behind them", u.Scheme, u.Host)
	}
	ip := net.ParseIP(u.Hostname())
	return target{
		grpc: "dns:///" + u.Host, tls: u.Scheme == "grpcs",
		local: u.Hostname() == "localhost" || ip != nil && ip.IsLoopback(),
	}, nil
}

// credentials are those of the transport, for a target that c may use.
func (c *Config) credentials(t target) (credentials.TransportCredentials, error) {
	for name := range c.Headers {
		switch lower := strings.ToLower(name); {
		case lower == "" || strings.HasPrefix(lower, "grpc-") || strings.HasPrefix(lower, ":") || textproto.TrimString(name) != name || strings.ContainsFunc(lower, notInHeader):
			return nil, &ConfigError{fmt.Errorf("header %q: not a name that a call may carry", name), "use letters, digits, '-', '_' and '.'; not grpc-*"}
		case !t.tls && !t.local:
			return nil, &ConfigError{fmt.Errorf("header %q would travel in the clear to %s", name, c.URL), "use grpcs://, or an address of this machine"}
		}
	}
	if !t.tls {
		if c.CA != "" || c.Cert != "" || c.Key != "" {
			return nil, &ConfigError{fmt.Errorf("%s does not use TLS, but certificates are given for it", c.URL), "use grpcs://"}
		}
		return insecure.NewCredentials(), nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, &ConfigError{fmt.Errorf("read the certificates to trust: %w", err), "give a PEM file"}
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, &ConfigError{fmt.Errorf("%s: holds no certificate", c.CA), "give a PEM file"}
		}
	}
	if (c.Cert == "") != (c.Key == "") {
		return nil, &ConfigError{errors.New("a client certificate and its key are needed together"), "give both or none"}
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, &ConfigError{fmt.Errorf("client certificate %s: %w", c.Cert, err), "give a PEM certificate and the PEM key that belongs to it"}
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return credentials.NewTLS(conf), nil
}

func notInHeader(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r)
}
