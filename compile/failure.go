package compile

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"syscall"

	"github.com/thox-ai/thoxbuild/compile/action"
)

// ConfigError is a mistake in a kernel's build.toml or in what it names.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

func configf(format string, args ...any) error { return &ConfigError{fmt.Errorf(format, args...)} }

// failure turns what went wrong with an action into an error for a person.
// A cancelled context, a check's verdict and a hole in the cache stay what
// they are.
func (r *runner) failure(ctx context.Context, a *Action, spec *action.Spec, res *action.Result, err error) error {
	var verdict *CheckError
	var missing *missingBlobError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &verdict), errors.As(err, &missing):
		return err
	}
	e := &ActionError{Label: a.Label, Variants: a.Variants}
	if a.inProcess == nil {
		e.Command = r.o.Executor.Describe(spec)
	}
	if errors.Is(err, errFailed) {
		e.ExitCode, e.Output = res.ExitCode, string(res.Log)
		e.Hint = r.p.missingHint(a, e.Output)
	} else {
		e.Err = err
	}
	if e.Hint == "" && e.diskFull() {
		e.Hint = fmt.Sprintf("free some space where the cache is, %s, or move it with --store DIR; what was compiled so far is kept", r.o.Cache.Dir())
	}
	return e
}

// diskFull reports whether the disk may have been full. Linkers write through
// a mapping of the file, and on some file systems a full disk then ends them
// with SIGBUS, without a word.
func (e *ActionError) diskFull() bool {
	return errors.Is(e.Err, syscall.ENOSPC) || errors.Is(e.Err, syscall.EDQUOT) ||
		e.ExitCode == 128+int(syscall.SIGBUS) || strings.Contains(e.Output, "No space left on device")
}

func (e *ActionError) format() string {
	var b strings.Builder
	b.WriteString(e.Label)
	switch {
	case e.Err != nil:
		fmt.Fprintf(&b, ": %v", e.Err)
	case e.ExitCode > 128:
		fmt.Fprintf(&b, ": ended by signal %d (%v)", e.ExitCode-128, syscall.Signal(e.ExitCode-128))
	default:
		fmt.Fprintf(&b, ": exit status %d", e.ExitCode)
	}
	if e.Command != "" {
		fmt.Fprintf(&b, "\n  command: %s", e.Command)
	}
	if out := strings.TrimRight(e.Output, "\n"); out != "" {
		b.WriteString("\n" + out)
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, "\n  hint: %s", e.Hint)
	}
	if n := len(e.Variants); n > 0 {
		fmt.Fprintf(&b, "\n  waiting for it: %s", strings.Join(e.Variants, ", "))
	}
	return b.String()
}

// missingHint explains a header that the compiler did not find although the
// kernel has it: no src lists it, so it is not in the action's folder.
func (p *Plan) missingHint(a *Action, output string) string {
	for _, m := range a.missing {
		from, rest, _ := strings.Cut(m, ":")
		_, name, _ := strings.Cut(rest, ": ")
		if !strings.Contains(output, path.Base(name)) || !strings.Contains(output, "not found") && !strings.Contains(output, "No such file") {
			continue
		}
		for _, dir := range []string{path.Dir(from), ".", "csrc", extDir} {
			file := path.Join(dir, name)
			if p.kernelHas(file) {
				return fmt.Sprintf("%s includes %q, and %s exists, but no src in %s lists it; add it to the src of the section", from, name, file, p.cfg.Kernel.File)
			}
		}
		return fmt.Sprintf("%s includes %q, which is no file of the kernel's src or include folders; list it in the src of the section", from, name)
	}
	return ""
}
