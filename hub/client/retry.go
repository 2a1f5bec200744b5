package client

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Retry says how often and how patiently a call is repeated. The zero value
// means the defaults.
type Retry struct {
	// Attempts is the most times a call is sent; 6 by default.
	Attempts int
	// Base is the first wait, doubled up to Max each time; 1 s and 8 s by
	// default, like the Hub's own clients.
	Base, Max time.Duration
	// MaxTotal caps the time spent waiting in one call, whatever the server
	// asks for; 10 min by default (two rate-limit windows of the public Hub).
	MaxTotal time.Duration
}

func (r Retry) withDefaults() Retry {
	if r.Attempts == 0 {
		r.Attempts = 6
	}
	if r.Base == 0 {
		r.Base = time.Second
	}
	if r.Max == 0 {
		r.Max = 8 * time.Second
	}
	if r.MaxTotal == 0 {
		r.MaxTotal = 10 * time.Minute
	}
	return r
}

// transientStatus reports whether a status may go away by itself. These are
// the ones that every client of the Hub repeats.
func transientStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// wait returns how long to wait before attempt n+1 (n counts from 1). What
// the server asks for wins; a second is added to it because windows are
// rounded down.
func (r Retry) wait(n int, h http.Header, now time.Time) time.Duration {
	if d, ok := serverWait(h, now); ok {
		return d
	}
	d := r.Base << min(n-1, 20)
	if d <= 0 || d > r.Max {
		d = r.Max
	}
	// Half fixed, half random: publishers that failed together do not come
	// back together.
	return d/2 + rand.N(d/2+1)
}

// serverWait reads Retry-After (seconds or a date) and RateLimit
// ("name";r=remaining;t=seconds).
func serverWait(h http.Header, now time.Time) (time.Duration, bool) {
	const most = 24 * time.Hour // also keeps the arithmetic from overflowing
	for _, part := range strings.Split(h.Get("RateLimit"), ";") {
		if s, ok := strings.CutPrefix(strings.TrimSpace(part), "t="); ok {
			if n, err := strconv.Atoi(s); err == nil && n >= 0 {
				return min(time.Duration(min(n, 1<<20))*time.Second+time.Second, most), true
			}
		}
	}
	v := h.Get("Retry-After")
	if n, err := strconv.Atoi(v); err == nil && n >= 0 {
		if n == 0 {
			return 0, true
		}
		return min(time.Duration(min(n, 1<<20))*time.Second+time.Second, most), true
	}
	if t, err := http.ParseTime(v); err == nil {
		return min(max(t.Sub(now), 0)+time.Second, most), true
	}
	return 0, false
}

// sleep waits or returns the context's cause.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
