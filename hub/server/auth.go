package server

import (
	"net/http"
	"strings"

	"github.com/thox-ai/thoxbuild/hub/store"
)

// anonymousWriter is everybody, while the Hub has no tokens.
var anonymousWriter = store.Token{User: "local", Name: "local", Role: store.Write}

// identify finds out who calls. A token that is not known is refused, even
// where none is needed, so that a typing error does not look like a missing
// repository.
func (c *call) identify() error {
	if c.Server.open() {
		c.who = anonymousWriter // whatever token the client sends is not for us
		return nil
	}
	h := c.r.Header.Get("Authorization")
	if h == "" {
		c.anon = true
		return nil
	}
	kind, secret, _ := strings.Cut(h, " ")
	secret = strings.TrimSpace(secret)
	if strings.EqualFold(kind, "bearer") && secret != "" {
		if t, ok := store.FindToken(c.tokens, secret); ok {
			c.who = t
			return nil
		}
		if t, ok := c.store.FindToken(secret); ok {
			c.who = t
			return nil
		}
	}
	return &apiError{Status: http.StatusUnauthorized, Message: "Invalid credentials in Authorization header"}
}

// needUser refuses anonymous callers.
func (c *call) needUser() error {
	if c.anon {
		return &apiError{Status: http.StatusUnauthorized, Message: "Invalid username or password."}
	}
	return nil
}

// mayWrite refuses callers who may not write in a namespace.
func (c *call) mayWrite(ns string) error {
	if err := c.needUser(); err != nil {
		return err
	}
	if c.who.Role != store.Write || !c.who.May(ns) {
		return &apiError{Status: http.StatusForbidden, Message: "You don't have the rights to write in the namespace " + headerText(ns) + " with this token"}
	}
	return nil
}

// findRepo finds a repository that the caller may read. One that is private
// looks as if it did not exist.
func (c *call) findRepo(t store.Type, id string) (*store.Repo, error) {
	r, err := c.store.Repo(t, id)
	if err == nil {
		info := r.Info()
		if !info.Private || !c.anon && c.who.May(info.Namespace()) {
			return r, nil
		}
	}
	e := toAPI(err404(err))
	if c.anon {
		return nil, &apiError{Status: http.StatusUnauthorized, Code: codeRepo, Message: e.Message}
	}
	return nil, e
}

func err404(err error) error {
	if err != nil {
		return err
	}
	return store.ErrRepoNotFound
}
