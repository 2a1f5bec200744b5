package faulty_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
)

// meter is a transport that counts what is sent of each object, and notices an
// object that is sent again although the server had confirmed it.
type meter struct {
	base http.RoundTripper

	mu       sync.Mutex
	run      int
	done     map[string]bool // objects whose last request was answered well
	parts    map[string]int  // the run in which a part was answered well
	sent     map[string]int64
	problems []string
}

func newMeter() *meter {
	return &meter{base: &http.Transport{}, done: map[string]bool{}, parts: map[string]int{}, sent: map[string]int64{}}
}

// nextRun is called when a publisher starts over.
func (m *meter) nextRun() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.run++
}

// total is all that was sent of objects.
func (m *meter) total() (n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.sent {
		n += s
	}
	return n
}

var hexDigest = regexp.MustCompile(`[0-9a-f]{64}`)

// object says which object a request carries bytes of, in which part, and
// whether its success completes the object.
func object(r *http.Request) (id, part string, last bool) {
	p := r.URL.Path
	switch {
	case strings.Contains(p, "/api/lfs/put/"):
		return hexDigest.FindString(p), "", true
	case strings.Contains(p, "/api/lfs/part/"):
		return hexDigest.FindString(p), p, false
	case strings.Contains(p, "/api/lfs/join/"):
		return hexDigest.FindString(p), "", true
	case r.Method == http.MethodPut && strings.Contains(p, "/blobs/uploads/"):
		return hexDigest.FindString(r.URL.RawQuery), "", true
	case r.Method == http.MethodPatch: // a chunk of a session
		return "session " + p, "", false
	}
	return "", "", false
}

// RoundTrip implements http.RoundTripper.
func (m *meter) RoundTrip(r *http.Request) (*http.Response, error) {
	id, part, last := object(r)
	if id == "" {
		return m.base.RoundTrip(r)
	}
	var n atomic.Int64
	carries := r.Method != http.MethodPost && r.ContentLength > 0
	if carries && r.Body != nil {
		r.Body = &countBody{r.Body, &n}
	}
	m.mu.Lock()
	// A registry's small documents are sent where asking would cost as much.
	if carries && m.done[id] && !(strings.Contains(r.URL.Path, "/blobs/uploads/") && r.ContentLength <= 16<<10) {
		m.problems = append(m.problems, fmt.Sprintf("%s %s: %s was confirmed before, %d bytes", r.Method, r.URL.Path, id, r.ContentLength))
	}
	if part != "" && m.parts[part] == m.run+1 {
		m.problems = append(m.problems, fmt.Sprintf("%s %s: the part was confirmed before in this run", r.Method, r.URL.Path))
	}
	m.mu.Unlock()
	resp, err := m.base.RoundTrip(r)
	m.mu.Lock()
	defer m.mu.Unlock()
	if carries {
		m.sent[id] += n.Load()
	}
	if err == nil && resp.StatusCode/100 == 2 {
		if part != "" {
			m.parts[part] = m.run + 1
		}
		if last {
			m.done[id] = true
		}
	}
	return resp, err
}

type countBody struct {
	io.ReadCloser
	n *atomic.Int64
}

// Read implements io.Reader.
func (c *countBody) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}
