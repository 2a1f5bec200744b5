package server

import (
	"net/http/httptest"
	"testing"

	"github.com/thox-ai/thoxbuild/hub/store"
)

// newHub starts a Hub over a fresh store.
func newHub(t testing.TB, change ...func(*Options)) (*httptest.Server, *Server) {
	t.Helper()
	st, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Store: st}
	for _, c := range change {
		c(&opts)
	}
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewServer(s)
	t.Cleanup(func() { hs.Close(); st.Close() })
	return hs, s
}
