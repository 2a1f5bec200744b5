package toolchain

import "fmt"

// Error is a failure that a person can do something about.
type Error struct {
	Op   string // what was being done
	Err  error
	Hint string // the next step; never empty
}

func (e *Error) Error() string { return e.Op + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// UserHint is the line to print below the error.
func (e *Error) UserHint() string { return e.Hint }

func hinted(op string, err error, hint string, args ...any) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Err: err, Hint: fmt.Sprintf(hint, args...)}
}
