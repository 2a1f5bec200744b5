package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// capabilityLife is how long an upload URL works. A client fetches new ones
// when a run is repeated.
const capabilityLife = 6 * time.Hour

// sign makes a right: what it covers is what, until it ends.
func (s *Server) sign(what string, end int64) string {
	m := hmac.New(sha256.New, s.store.Secret())
	fmt.Fprintf(m, "%s\n%d", what, end)
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// grant is a right as text, for a query or a token.
func (s *Server) grant(what string) (text string, end int64) {
	end = s.opts.Now().Add(capabilityLife).Unix()
	return strconv.FormatInt(end, 10) + "." + s.sign(what, end), end
}

// granted checks a right.
func (s *Server) granted(what, text string) error {
	endText, sig, _ := strings.Cut(text, ".")
	end, err := strconv.ParseInt(endText, 10, 64)
	if err != nil || !hmac.Equal([]byte(sig), []byte(s.sign(what, end))) {
		return &apiError{Status: http.StatusForbidden, Message: "this upload URL or token is not valid"}
	}
	if s.opts.Now().Unix() > end {
		return &apiError{Status: http.StatusForbidden, Message: "this upload URL or token has expired; ask for a new one"}
	}
	return nil
}

// capabilityURL is an upload URL for what, below /api/lfs/.
func (c *call) capabilityURL(what string) string {
	g, _ := c.grant("lfs/" + what)
	return c.base() + "/api/lfs/" + what + "?grant=" + url.QueryEscape(g)
}
