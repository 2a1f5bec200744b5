// Package client speaks the HTTP API of a Hugging Face style Hub: the calls
// that publishing and pulling a kernel need, and no others.
//
// It holds three promises that callers build on. The token leaves the process
// only in an Authorization header to the endpoint's own origin; neither a
// redirect nor a URL that the server hands out can carry it elsewhere, and no
// error or log line shows it. A call is repeated only where repeating it is
// safe, and then its body is sent from the start. Everything a server says
// about sizes, digests and addresses is checked before it is acted on.
//
// The package does not decide what to publish; hub/publish does.
package client
