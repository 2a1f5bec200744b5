package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What huggingface_hub 2.4.0 wrote after two logins, with a comment by hand.
const storedSample = `# mine
[ci = 50%%]
hf_token = hf_ci

[laptop]
hf_token = hf_old
refresh_token = hf_refresh1
expires_at = %d

`

func TestRefreshedToken(t *testing.T) {
	day := 24 * time.Hour
	for name, tc := range map[string]struct {
		token    string
		left     time.Duration
		status   int
		reply    string
		want     string
		warning  string
		file     string // part of stored_tokens afterwards
		requests int
	}{
		"plenty left":     {"hf_old", 2 * day, 200, "", "hf_old", "", "hf_refresh1", 0},
		"no refresh":      {"hf_ci", 0, 200, "", "hf_ci", "", "hf_refresh1", 0},
		"not stored":      {"hf_else", 0, 200, "", "hf_else", "", "hf_refresh1", 0},
		"ends soon":       {"hf_old", time.Hour, 200, `{"access_token":"hf_new","refresh_token":"hf_refresh2","expires_in":2592000}`, "hf_new", "", "hf_token = hf_new\nrefresh_token = hf_refresh2\nexpires_at = ", 1},
		"has ended":       {"hf_old", -day, 200, `{"access_token":"hf_new","expires_in":2592000}`, "hf_new", "", "hf_token = hf_new\nrefresh_token = hf_refresh1\nexpires_at = ", 1},
		"revoked":         {"hf_old", time.Hour, 400, `{"error":"invalid_grant hf_refresh1"}`, "hf_old", "was not renewed", "hf_refresh1", 1},
		"the Hub is down": {"hf_old", time.Hour, 503, `{}`, "hf_old", "was not renewed", "hf_refresh1", 1},
		"no token in it":  {"hf_old", time.Hour, 200, `{}`, "hf_old", "no access_token", "hf_refresh1", 1},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			stored := filepath.Join(home, "stored_tokens")
			if err := errors.Join(os.WriteFile(filepath.Join(home, "token"), []byte(tc.token), 0o600),
				os.WriteFile(stored, fmt.Appendf(nil, storedSample, time.Now().Add(tc.left).Unix()), 0o600)); err != nil {
				t.Fatal(err)
			}
			requests := 0
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests++
				if r.URL.Path != "/oauth/token" || r.FormValue("grant_type") != "refresh_token" || r.FormValue("refresh_token") != "hf_refresh1" || r.FormValue("client_id") != "me" {
					t.Errorf("%s %v", r.URL, r.Form)
				}
				w.WriteHeader(tc.status)
				fmt.Fprint(w, tc.reply)
			}))
			defer s.Close()
			env := map[string]string{"HF_HOME": home, "HF_DEVICE_CODE_OAUTH_CLIENT_ID": "me"}
			for range 2 { // the second time there is nothing to do
				got, err := DiscoverToken(t.Context(), s.URL, func(k string) string { return env[k] })
				if err != nil || got.Token.secret != tc.want || !strings.Contains(got.Warning, tc.warning) || (got.Warning == "") != (tc.warning == "") {
					t.Errorf("%q, %q, %v", got.Token.secret, got.Warning, err)
				}
				if strings.Contains(got.Warning, "hf_refresh1") {
					t.Errorf("the refresh token shows: %s", got.Warning)
				}
				if tc.warning != "" {
					break
				}
			}
			if requests != tc.requests {
				t.Errorf("%d requests, want %d", requests, tc.requests)
			}
			b, err := os.ReadFile(stored)
			if err != nil || !strings.Contains(string(b), tc.file) || !strings.HasPrefix(string(b), "# mine\n[ci = 50%]\nhf_token = hf_ci\n\n[laptop]\n") {
				t.Errorf("stored_tokens: %s, %v", b, err)
			}
			if b, err := os.ReadFile(filepath.Join(home, "token")); err != nil || string(b) != tc.want {
				t.Errorf("token: %s, %v", b, err)
			}
			if fi, err := os.Stat(stored); err != nil || fi.Mode().Perm() != 0o600 {
				t.Errorf("stored_tokens has mode %v", fi.Mode())
			}
		})
	}
}

// What we write, the library reads, and the other way round.
func TestStoredTokensOfTheLibrary(t *testing.T) {
	py := filepath.Join("..", "..", ".venv", "bin", "python")
	home := t.TempDir()
	run := func(script string) string {
		cmd := exec.Command(py, "-c", script)
		cmd.Env = append(os.Environ(), "HF_HOME="+home, "HF_TOKEN=", "HF_HUB_OFFLINE=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			if _, serr := os.Stat(py); serr != nil {
				t.Skip("needs .venv: run `make venv`")
			}
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	run(`from huggingface_hub.utils import _auth
_auth._save_token("hf_one", "ünï = x")
_auth._save_token("hf_old", "laptop", refresh_token="r%1", expires_at=1)
_auth._write_secret(_auth.Path(_auth.constants.HF_TOKEN_PATH), "hf_old")`)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("refresh_token") != "r%1" {
			t.Errorf("%v", r.Form)
		}
		fmt.Fprint(w, `{"access_token":"hf_new","refresh_token":"r%2","expires_in":259200}`)
	}))
	defer s.Close()
	got, err := DiscoverToken(t.Context(), s.URL, func(k string) string { return map[string]string{"HF_HOME": home}[k] })
	if err != nil || got.Token.secret != "hf_new" || got.Warning != "" {
		t.Fatalf("%q, %q, %v", got.Token.secret, got.Warning, err)
	}
	out := run(`from huggingface_hub.utils import _auth
f = _auth._read_stored_tokens_full()
print(_auth.get_token(), f["laptop"]["hf_token"], f["laptop"]["refresh_token"], f["ünï = x"]["hf_token"], len(f))`)
	if out != "hf_new hf_new r%2 hf_one 2" {
		t.Errorf("the library reads %q", out)
	}
}
