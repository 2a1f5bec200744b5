package store

import "errors"

// Errors that callers tell apart. What the store returns wraps one of them with
// the name it is about.
var (
	// ErrRepoNotFound: no repository has this type and name.
	ErrRepoNotFound = errors.New("repository not found")
	// ErrRevisionNotFound: no branch, tag or commit answers to the name.
	ErrRevisionNotFound = errors.New("revision not found")
	// ErrEntryNotFound: the revision has no such file or folder.
	ErrEntryNotFound = errors.New("entry not found")
	// ErrExists: the name is taken.
	ErrExists = errors.New("already exists")
	// ErrStale: the branch is no longer where the caller saw it.
	ErrStale = errors.New("the branch was updated since you opened this page; read it again and retry")
	// ErrInvalid: a name, path or body breaks a rule; nothing was written.
	ErrInvalid = errors.New("invalid")
	// ErrNoObject: the bytes that an id names are not here.
	ErrNoObject = errors.New("object not stored")
	// ErrConflict: two changes of one file cannot be merged.
	ErrConflict = errors.New("conflict")
	// ErrForbidden: the operation is never allowed, such as deleting main.
	ErrForbidden = errors.New("forbidden")
	// ErrLocked: another process has the store open.
	ErrLocked = errors.New("the store is in use by another process")
	// ErrCorrupt: bytes on disk are not what their name says.
	ErrCorrupt = errors.New("corrupt")
)
