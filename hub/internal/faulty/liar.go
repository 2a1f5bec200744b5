package faulty

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Lies lists what a Liar does.
var Lies = []string{"size", "digest", "address", "content", "redirect loop"}

// Liar answers a share of the requests with something that is not true: other
// sizes, digests or addresses than the server gave, changed bytes, or a
// redirect to itself.
type Liar struct {
	Next http.Handler
	Seed uint64
	Rate float64
	// Elsewhere is a base URL that addresses are turned to.
	Elsewhere string

	mu   sync.Mutex
	seen map[string]int
	told map[string]int
}

// Told counts the lies.
func (l *Liar) Told() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.told {
		n += c
	}
	return n
}

var (
	jsonSize = regexp.MustCompile(`"size":[0-9]+`)
	anyHash  = regexp.MustCompile(`[0-9a-f]{40,64}`)
	anyURL   = regexp.MustCompile(`https?://[0-9a-z.:\[\]]+`)
)

// ServeHTTP implements http.Handler.
func (l *Liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	if l.seen == nil {
		l.seen, l.told = map[string]int{}, map[string]int{}
	}
	key := r.Method + " " + r.URL.Path
	l.seen[key]++
	f := fnv.New64a()
	fmt.Fprintf(f, "%s %d", key, l.seen[key])
	l.mu.Unlock()
	rng := rand.New(rand.NewPCG(l.Seed, f.Sum64()))
	if rng.Float64() >= l.Rate || r.Method == http.MethodHead {
		l.Next.ServeHTTP(w, r)
		return
	}
	lie := Lies[rng.IntN(len(Lies))]
	if lie == "redirect loop" {
		l.count(lie)
		http.Redirect(w, r, r.URL.String(), http.StatusTemporaryRedirect)
		return
	}
	rec := httptest.NewRecorder()
	l.Next.ServeHTTP(rec, r)
	body := rec.Body.Bytes()
	// One of all matches is changed, so that the rest still fits.
	change := func(re *regexp.Regexp, to func(string) string) {
		if all := re.FindAllIndex(body, -1); len(all) > 0 {
			at := all[rng.IntN(len(all))]
			body = bytes.Join([][]byte{body[:at[0]], []byte(to(string(body[at[0]:at[1]]))), body[at[1]:]}, nil)
			l.count(lie)
		}
	}
	switch lie {
	case "size":
		change(jsonSize, func(s string) string {
			n, _ := strconv.ParseInt(strings.TrimPrefix(s, `"size":`), 10, 64)
			return fmt.Sprintf(`"size":%d`, max(n+rng.Int64N(2000)-1000, 0))
		})
	case "digest":
		change(anyHash, func(s string) string {
			b := []byte(s)
			i := rng.IntN(len(b))
			b[i] = "0123456789abcdef"[(strings.IndexByte("0123456789abcdef", b[i])+1)%16]
			return string(b)
		})
	case "address":
		change(anyURL, func(string) string { return l.Elsewhere })
	case "content":
		if len(body) > 0 && !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
			body = bytes.Clone(body)
			body[rng.IntN(len(body))] ^= 1 << rng.IntN(8)
			l.count(lie)
		}
	}
	for name, v := range rec.Header() {
		w.Header()[name] = v
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(rec.Code)
	_, _ = w.Write(body)
}

func (l *Liar) count(lie string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told[lie]++
}
