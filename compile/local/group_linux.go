package local

import "syscall"

func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// Linux counts kibibytes.
func maxRSSBytes(ru *syscall.Rusage) int64 { return ru.Maxrss << 10 }
