// Package lock pins kernels: it reads and writes thoxbuild.lock, resolves
// versions to commits for kernels.lock, and defines the digest of a variant.
//
// thoxbuild.lock is JSON and deterministic: equal pins give equal bytes. It
// carries a checksum of its own content. That is no protection against a
// forger, who can compute it too; it names an accident or a merge gone wrong
// for what it is, before a wrong pin is taken for a wrong server.
package lock
