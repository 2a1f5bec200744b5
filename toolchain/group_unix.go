//go:build unix

package toolchain

import (
	"os/exec"
	"syscall"
)

// killGroup starts a command in a process group of its own and makes its
// context end the whole group.
func killGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
