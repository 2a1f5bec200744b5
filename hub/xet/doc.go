// Package xet reads the two formats in which the default transport of current
// Python clients uploads: xorbs, which hold compressed chunks, and shards, which
// say of which chunks a file is made. Only what an upload needs is read; every
// file is checked by the SHA-256 that its shard carries.
package xet
