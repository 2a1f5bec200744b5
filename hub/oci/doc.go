// Package oci publishes kernels to OCI registries and reads them back.
//
// A kernel version is a tag that names an image index. The index lists one
// manifest per variant, with the platform and annotations to choose by. Each
// manifest has a config of our own media type, which lists every file with its
// digest, and one layer: a tar archive compressed with zstd whose bytes follow
// from the files alone. So pushing the same variant twice uploads nothing, and
// pulling one variant downloads one layer.
//
// Signatures and check reports are referrers of a variant's manifest.
//
// A tag can't be changed conditionally: the protocol has no parent commit.
// Push reads the tag again right before it writes the index and once more a
// moment later, and starts over if another publisher was in between. What
// remains is a publisher that stalls between its reading and its writing for
// longer than that moment.
package oci
