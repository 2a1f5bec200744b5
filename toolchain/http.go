package toolchain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// statusError is an HTTP answer that is not the expected one.
type statusError struct {
	Code       int
	URL        string // without credentials
	RetryAfter time.Duration
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s answered %d %s", e.URL, e.Code, http.StatusText(e.Code))
}

func checkStatus(res *http.Response, want ...int) error {
	for _, w := range want {
		if res.StatusCode == w {
			return nil
		}
	}
	e := &statusError{Code: res.StatusCode, URL: redactURL(res.Request.URL.String())}
	if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && s >= 0 {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	return e
}

// cleanURLError drops the address that net/http quotes with its credentials.
func cleanURLError(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return fmt.Errorf("%s %s: %w", u.Op, redactURL(u.URL), u.Err)
	}
	return err
}

// permanent marks an error that another try cannot mend.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

const retries = 5

// backoffUnit is a variable so that tests need not wait.
var backoffUnit = 500 * time.Millisecond

// retry calls fn until it succeeds, fails for good, or has failed six times.
// Server errors, 408, 429 and broken connections are tried again; a refused
// request, a bad hash and a local failure are not.
func retry(ctx context.Context, fn func() error) error {
	var err error
	for try := 0; ; try++ {
		if err = fn(); err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		wait := backoffUnit << try
		var p permanent
		var s *statusError
		switch {
		case errors.As(err, &p):
			return p.error
		case errors.As(err, &s):
			if s.Code != 408 && s.Code != 429 && s.Code < 500 {
				return err
			}
			wait = max(wait, min(s.RetryAfter, time.Minute))
		}
		if try == retries {
			return fmt.Errorf("%w (tried %d times)", err, try+1)
		}
		wait += time.Duration(rand.Int64N(int64(wait)/4 + 1))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// Progress hears how far a transfer is, possibly from several goroutines.
// A nil Progress is silent.
type Progress interface {
	// Transfer says that done of total bytes have arrived; total is 0 when
	// it is not known.
	Transfer(label string, done, total int64)
}

// counting reports what passes through a reader.
type counting struct {
	r           io.Reader
	report      Progress
	label       string
	done, total int64
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.done += int64(n)
	if c.report != nil {
		c.report.Transfer(c.label, c.done, c.total)
	}
	return n, err
}
