// Package cache keeps what actions made on disk: blobs by their digest (cas)
// and action results by the action's key (ac), both in the messages of the
// Remote Execution API.
//
// The folder may be shared by any number of builds at once and may be killed
// at any moment: data is written before the entry that names it, each file in
// a temporary place, synced, then renamed. What is read is checked; an entry
// that is malformed, or names a blob that is not there, is a miss with a
// reason and never a failure.
//
//	cas/ab/abcdef...   the bytes whose SHA-256 is abcdef...
//	ac/ab/abcdef...    a checked ActionResult for the action of that digest
//	scratch/           one locked folder per running process
//	lock               held shared by builds, exclusively by Trim
package cache
