package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
)

// A token that a login in the browser gave lives for some hours. It stands in
// the token file like any other, and beside it, in stored_tokens, with what a
// new one can be had for. The form of that file, when a token is exchanged and
// the lock that is held meanwhile follow huggingface_hub's utils/_auth.py: both
// programs may look after the same files at once.

// refreshMargin is how long before its end a token is exchanged.
const refreshMargin = 24 * time.Hour

// deviceClient is the application that huggingface_hub's login registers as.
const deviceClient = "26be6b09-91c5-47da-9861-d2d2bb7a7e36"

// storedTokens is an INI file whose lines are kept as they are, but for the
// values that change.
type storedTokens struct{ lines []string }

func readStored(path string) (*storedTokens, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return &storedTokens{strings.Split(string(b), "\n")}, nil
}

// field reads a line of the form key = value or key: value.
func field(line string) (key, value string, ok bool) {
	i := strings.IndexAny(line, "=:")
	if i < 0 || strings.HasPrefix(strings.TrimSpace(line), "#") || strings.HasPrefix(strings.TrimSpace(line), ";") {
		return "", "", false
	}
	return strings.ToLower(strings.TrimSpace(line[:i])), strings.TrimSpace(line[i+1:]), true
}

func section(line string) (string, bool) {
	s := strings.TrimSpace(line)
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		return s[1 : len(s)-1], true
	}
	return "", false
}

// find returns the section whose hf_token is the given one, with its fields.
func (f *storedTokens) find(token string) (name string, fields map[string]string) {
	all := map[string]map[string]string{}
	for _, line := range f.lines {
		if s, ok := section(line); ok {
			name = s
			all[name] = map[string]string{}
		} else if k, v, ok := field(line); ok && all[name] != nil {
			all[name][k] = v
		}
	}
	for name, fields := range all {
		if fields["hf_token"] == token {
			return name, fields
		}
	}
	return "", nil
}

// set changes fields of a section; one that is missing is added.
func (f *storedTokens) set(name string, values map[string]string) {
	var out []string
	in, left := false, map[string]string{}
	finish := func() {
		for _, k := range []string{"hf_token", "refresh_token", "expires_at"} {
			if v, ok := left[k]; ok && in {
				out = append(out, k+" = "+v)
			}
		}
	}
	for _, line := range f.lines {
		if s, ok := section(line); ok {
			finish()
			if in = s == name; in {
				for k, v := range values {
					left[k] = v
				}
			}
		} else if k, _, ok := field(line); ok && in {
			if v, changed := left[k]; changed {
				line = k + " = " + v
				delete(left, k)
			}
		}
		out = append(out, line)
	}
	finish()
	f.lines = out
}

// refreshed returns the token of a file, exchanged for a new one if it is one
// that ends soon. A failure leaves the token as it is and is returned beside
// it: the Hub will say so if it has really expired.
func refreshed(ctx context.Context, endpoint, tokenFile string, token Token, getenv func(string) string) (Token, error) {
	path := filepath.Join(filepath.Dir(tokenFile), "stored_tokens")
	ends := func() (name, refresh string, soon bool) {
		f, err := readStored(path)
		if err != nil {
			return "", "", false
		}
		name, fields := f.find(token.secret)
		at, err := strconv.ParseInt(fields["expires_at"], 10, 64)
		return name, fields["refresh_token"], err == nil && fields["refresh_token"] != "" && time.Until(time.Unix(at, 0)) < refreshMargin
	}
	if _, _, soon := ends(); !soon {
		return token, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	// A server may let each refresh token be used once, so only one process
	// exchanges it.
	lock := flock.New(path + ".lock")
	if ok, err := lock.TryLockContext(ctx, 50*time.Millisecond); !ok {
		return token, fmt.Errorf("lock %s: %w", path, err)
	}
	defer lock.Unlock()
	name, refresh, soon := ends()
	if !soon { // another process was faster
		if b, err := os.ReadFile(tokenFile); err == nil {
			token = NewToken(string(b))
		}
		return token, nil
	}
	fresh, values, err := exchangeRefresh(ctx, endpoint, refresh, getenv)
	if err != nil {
		return token, err
	}
	f, err := readStored(path)
	if err != nil {
		return fresh, err
	}
	f.set(name, values)
	if err := renameio.WriteFile(path, []byte(strings.Join(f.lines, "\n")), 0o600); err != nil {
		return fresh, err
	}
	if b, err := os.ReadFile(tokenFile); err == nil && NewToken(string(b)).secret == token.secret {
		err = renameio.WriteFile(tokenFile, []byte(fresh.secret), 0o600)
		return fresh, err
	}
	return fresh, nil
}

// exchangeRefresh asks for a new token, and returns what to store with it.
func exchangeRefresh(ctx context.Context, endpoint, refresh string, getenv func(string) string) (Token, map[string]string, error) {
	c, err := New(Config{Endpoint: endpoint, Retry: Retry{Attempts: 1}})
	if err != nil {
		return Token{}, nil, err
	}
	id := getenv("HF_DEVICE_CODE_OAUTH_CLIENT_ID")
	if id == "" {
		id = deviceClient
	}
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}, "client_id": {id}}
	var reply json.RawMessage
	err = c.do(ctx, call{
		op: "exchange the refresh token", method: http.MethodPost, url: c.url("/oauth/token"),
		body: bytesBody([]byte(form.Encode())), contentType: "application/x-www-form-urlencoded", result: &reply,
	})
	if err != nil {
		return Token{}, nil, errors.New(NewToken(refresh).scrub(err.Error()))
	}
	var out struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
		Seconds int64  `json:"expires_in"`
	}
	if err := json.Unmarshal(reply, &out); err != nil || NewToken(out.Access).IsZero() {
		return Token{}, nil, errors.New("exchange the refresh token: the answer holds no access_token")
	}
	values := map[string]string{"hf_token": out.Access, "refresh_token": refresh}
	if out.Refresh != "" {
		values["refresh_token"] = out.Refresh
	}
	if out.Seconds > 0 {
		values["expires_at"] = strconv.FormatInt(time.Now().Unix()+out.Seconds, 10)
	}
	return NewToken(out.Access), values, nil
}
