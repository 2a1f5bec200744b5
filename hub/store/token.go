package store

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"slices"
	"time"
)

// Role is what a token lets its holder do.
type Role string

// The roles; a writer may read.
const (
	Read  Role = "read"
	Write Role = "write"
)

// Token is what the store remembers of a token: never the token itself. As
// tokens are long and random, a plain SHA-256 hides them well enough.
type Token struct {
	Hash string `json:"sha256"`
	User string `json:"user"`
	Name string `json:"name"`
	Role Role   `json:"role"`
	// Namespaces limits where the holder may write and which private
	// repositories the holder may read; empty means all.
	Namespaces []string  `json:"namespaces,omitempty"`
	CreatedAt  time.Time `json:"createdAt"`
}

// May reports whether the token covers a namespace.
func (t Token) May(ns string) bool {
	return len(t.Namespaces) == 0 || slices.Contains(t.Namespaces, ns) || t.User == ns
}

type users struct {
	Tokens []Token `json:"tokens"`
}

// HashToken is the form in which a token is stored.
func HashToken(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// AddToken makes a token for a user. The secret is returned this once.
func (s *Store) AddToken(t Token) (secret string, err error) {
	if err := CheckRepoName(t.User); err != nil {
		return "", fmt.Errorf("user: %w", err)
	}
	if t.Role != Read && t.Role != Write {
		return "", fmt.Errorf("%w role %q: want read or write", ErrInvalid, t.Role)
	}
	for _, ns := range t.Namespaces {
		if err := CheckRepoName(ns); err != nil {
			return "", fmt.Errorf("namespace: %w", err)
		}
	}
	if t.Name == "" {
		t.Name = t.User
	}
	secret = "hf_" + rand.Text() + rand.Text()
	t.Hash, t.CreatedAt = HashToken(secret), time.Now().UTC().Truncate(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.users.Tokens, func(o Token) bool { return o.User == t.User && o.Name == t.Name }) {
		return "", fmt.Errorf("token %q of user %s: %w", t.Name, t.User, ErrExists)
	}
	next := users{Tokens: append(slices.Clone(s.users.Tokens), t)}
	if err := s.writeJSON("users.json", next, 0o600); err != nil {
		return "", err
	}
	s.users = next
	return secret, nil
}

// RemoveToken makes a user's token worthless.
func (s *Store) RemoveToken(user, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := users{Tokens: slices.DeleteFunc(slices.Clone(s.users.Tokens), func(o Token) bool { return o.User == user && o.Name == name })}
	if len(next.Tokens) == len(s.users.Tokens) {
		return fmt.Errorf("token %q of user %s: %w", name, user, ErrEntryNotFound)
	}
	if err := s.writeJSON("users.json", next, 0o600); err != nil {
		return err
	}
	s.users = next
	return nil
}

// Tokens lists the tokens without their secrets.
func (s *Store) Tokens() []Token {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.users.Tokens)
}

// FindToken finds the token that a caller presents.
func (s *Store) FindToken(secret string) (Token, bool) {
	return FindToken(s.Tokens(), secret)
}

// FindToken finds a secret among tokens in time that does not depend on it.
func FindToken(list []Token, secret string) (found Token, ok bool) {
	h := []byte(HashToken(secret))
	for _, t := range list {
		if subtle.ConstantTimeCompare(h, []byte(t.Hash)) == 1 {
			found, ok = t, true
		}
	}
	return found, ok
}
