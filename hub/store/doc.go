// Package store keeps the embedded Hub's repositories on disk.
//
// A repository is a directory that git understands: objects in packs, refs as
// files, LFS objects where git-lfs has them. Commit ids are therefore true git
// ids, the same content never gets another id, and `git fsck` can look at the
// store from outside.
//
// Layout below the store's directory:
//
//	hub.json              store id, format number
//	secret                key of the capability URLs, mode 0600
//	users.json            hashed tokens
//	index.json            which repository names which directory
//	lock                  held by the one process that has the store open
//	tmp/                  files that are not finished; emptied by Open
//	repos/<uid>/          one repository, a bare git directory, with
//	    lfs/objects/aa/bb/<sha256>
//	    lfs/parts/<session>/  an upload in parts that is not finished
//	    xorbs/<hash>, xet what the Xet upload path has left
//	    discussions/N.json
//
// Everything becomes visible by one rename, in the order data, index, ref, each
// synced before the next. A process killed at any point, or a full disk, leaves
// what was committed before as it was; what is left over is swept by GC.
package store
