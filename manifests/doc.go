// Package manifests reads and prints the files that describe a kernel: the
// kernel and workspace forms of build.toml, metadata.json with its digest,
// both shapes of kernels.lock, and variant names.
//
// It turns bytes into typed values that carry their positions, and prints them
// back byte-stable. It opens no network connection and runs no tool; every
// file it reads is untrusted input.
package manifests
