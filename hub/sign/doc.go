// Package sign makes and checks signatures in the forms that the sigstore
// tools read: a bundle beside each variant's metadata, over its exact bytes,
// and statements about how a variant was built.
//
// A signature is made with a local key, in the formats of cosign, or without
// one: a certificate authority certifies a key that lives for one signature
// for the identity in an OIDC token, and a public log records it. A policy
// says whose signatures count for which repository.
package sign
