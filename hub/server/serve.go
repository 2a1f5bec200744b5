package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// ServeOptions tune Serve.
type ServeOptions struct {
	// CertFile and KeyFile turn on TLS.
	CertFile, KeyFile string
	// Ready is called once with the Hub's URL, when it answers.
	Ready func(url string)
	// Grace is how long running requests may take after ctx ends; 10 s by
	// default. What is cut then is as if its client had gone.
	Grace time.Duration
}

// Serve answers on addr, such as 127.0.0.1:0, until ctx ends, and then lets
// running requests finish. An address that others can reach is refused while
// the Hub has no tokens.
func (s *Server) Serve(ctx context.Context, addr string, opts ServeOptions) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("serve: address %q: want HOST:PORT: %w", addr, err)
	}
	if s.open() && !loopback(host) {
		return fmt.Errorf("serve: address %q can be reached from other machines and the Hub has no tokens; make a token first, or use 127.0.0.1", addr)
	}
	var conf *tls.Config
	if opts.CertFile != "" || opts.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(opts.CertFile, opts.KeyFile)
		if err != nil {
			return fmt.Errorf("serve: TLS needs a certificate and its key: %w", err)
		}
		conf = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	url := "http://" + ln.Addr().String()
	if conf != nil {
		url = "https://" + ln.Addr().String()
		ln = tls.NewListener(ln, conf)
	}
	// No limit on the whole of a request: uploads take what they take.
	srv := &http.Server{Handler: s, ReadHeaderTimeout: 15 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	if opts.Ready != nil {
		opts.Ready(url)
	}
	select {
	case err := <-done:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	if opts.Grace <= 0 {
		opts.Grace = 10 * time.Second
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), opts.Grace)
	defer cancel()
	if err := srv.Shutdown(grace); errors.Is(err, context.DeadlineExceeded) {
		return srv.Close()
	} else if err != nil {
		return fmt.Errorf("serve: shut down: %w", err)
	}
	return nil
}

// loopback reports that only this machine reaches host.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
