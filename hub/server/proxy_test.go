package server

import (
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// Behind a reverse proxy that ends TLS, the URLs in answers are the proxy's,
// and they work; without --trust-proxy nobody can choose them by a header.
func TestReverseProxy(t *testing.T) {
	for _, trust := range []bool{true, false} {
		hs, _ := newHub(t, func(o *Options) { o.TrustProxy = trust })
		to, err := url.Parse(hs.URL)
		if err != nil {
			t.Fatal(err)
		}
		front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.SetXForwarded()
			r.Out.Header.Set("X-Forwarded-Proto", "https")
			r.Out.Host = to.Host
		}})
		defer front.Close()
		resp, body := ask(t, "POST", front.URL+"/api/repos/create", `{"name":"k","organization":"thox-ai","type":"kernel"}`)
		want := `"url":"https://` + strings.TrimPrefix(front.URL, "http://") + `/kernels/thox-ai/k"`
		if !trust {
			want = `"url":"` + hs.URL + `/kernels/thox-ai/k"`
		}
		if resp.StatusCode != 200 || !strings.Contains(body, want) {
			t.Errorf("trust %v: %d %s, want %s", trust, resp.StatusCode, body, want)
		}
		batch := `{"operation":"upload","transfers":["basic"],"objects":[{"oid":"` + strings.Repeat("0", 64) + `","size":1}]}`
		if _, body := ask(t, "POST", front.URL+"/kernels/thox-ai/k.git/info/lfs/objects/batch", batch); trust && !strings.Contains(body, `"href":"https://`+strings.TrimPrefix(front.URL, "http://")+`/api/lfs/put/`) {
			t.Errorf("upload addresses: %s", body)
		}
	}
}
