// Package server is the embedded Hub: the HTTP API of a Hugging Face style Hub
// over a store, enough of it that the unmodified Python clients publish to it
// and load from it.
//
// Paths are routed in their escaped form, as a revision is one segment that may
// hold encoded slashes. Every URL in an answer is built from the Host that the
// client used, as clients refuse any other. Bytes are served directly and never
// by redirect. Upload URLs are capabilities: whoever holds one may use it until
// it expires, because clients send no token there.
package server
