// Package faulty stands in front of an http.Handler and breaks things, the
// same way for the same seed.
//
// Whether and how a request is broken depends on the seed, its method and
// path, and how often that path was asked for before, but not on which of
// several parallel requests came first. So a failing seed fails again.
package faulty

import (
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
)

// Kind is a way to break a request.
type Kind string

// The ways. Those with "after" let the server act first, so that the client
// can't know.
const (
	CutRequest  Kind = "cut the request"
	Drop        Kind = "drop before"
	DropAfter   Kind = "drop after"
	CutResponse Kind = "cut the response"
	Status      Kind = "status before"
	StatusAfter Kind = "status after"
)

// Kinds lists all of them.
var Kinds = []Kind{CutRequest, Drop, DropAfter, CutResponse, Status, StatusAfter}

var statuses = []int{500, 502, 503, 504, 429, 408}

// Handler breaks a share of the requests to Next.
type Handler struct {
	Next http.Handler
	Seed uint64
	// Rate is the share, from 0 to 1.
	Rate float64
	// Only lists the ways to choose from, all of them if empty.
	Only []Kind

	mu   sync.Mutex
	seen map[string]int
	// Hits counts faults by kind, ByPath by path.
	hits   map[Kind]int
	byPath map[string]int
}

// Hits returns how often each kind struck.
func (h *Handler) Hits() map[Kind]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[Kind]int{}
	for k, n := range h.hits {
		out[k] = n
	}
	return out
}

// On returns how many faults struck a path.
func (h *Handler) On(path string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.byPath[path]
}

func (h *Handler) pick(r *http.Request) (Kind, *rand.Rand) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen == nil {
		h.seen, h.hits, h.byPath = map[string]int{}, map[Kind]int{}, map[string]int{}
	}
	key := r.Method + " " + r.URL.Path
	h.seen[key]++
	f := fnv.New64a()
	fmt.Fprintf(f, "%s %d", key, h.seen[key])
	rng := rand.New(rand.NewPCG(h.Seed, f.Sum64()))
	if rng.Float64() >= h.Rate {
		return "", rng
	}
	kinds := h.Only
	if len(kinds) == 0 {
		kinds = Kinds
	}
	k := kinds[rng.IntN(len(kinds))]
	h.hits[k]++
	h.byPath[r.URL.Path]++
	return k, rng
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k, rng := h.pick(r)
	switch k {
	case "":
		h.Next.ServeHTTP(w, r)
	case Drop:
		panic(http.ErrAbortHandler)
	case CutRequest:
		// Let the server see a body that ends early, as it would if the
		// client's connection broke, then break the connection.
		n := int64(0)
		if r.ContentLength > 0 {
			n = rng.Int64N(r.ContentLength)
		}
		r.Body = &cutBody{r.Body, n}
		if r.ContentLength > 0 {
			h.Next.ServeHTTP(httptest.NewRecorder(), r)
		}
		panic(http.ErrAbortHandler)
	case Status:
		h.status(w, rng)
	case StatusAfter:
		h.Next.ServeHTTP(httptest.NewRecorder(), r)
		h.status(w, rng)
	case DropAfter:
		h.Next.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	case CutResponse:
		rec := httptest.NewRecorder()
		h.Next.ServeHTTP(rec, r)
		for name, v := range rec.Header() {
			w.Header()[name] = v
		}
		body := rec.Body.Bytes()
		if w.Header().Get("Content-Length") == "" {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		}
		w.WriteHeader(rec.Code)
		if len(body) > 0 {
			_, _ = w.Write(body[:rng.IntN(len(body))])
		}
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		panic(http.ErrAbortHandler)
	}
}

func (h *Handler) status(w http.ResponseWriter, rng *rand.Rand) {
	code := statuses[rng.IntN(len(statuses))]
	if code == 429 || code == 503 {
		if rng.IntN(2) == 0 {
			w.Header().Set("Retry-After", "0")
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, `{"error":"injected"}`)
}

// cutBody gives n bytes and then an unexpected end.
type cutBody struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (c *cutBody) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.ReadCloser.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
