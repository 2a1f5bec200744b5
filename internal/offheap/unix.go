//go:build unix

package offheap

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func mapped(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", n, err)
	}
	return b, nil
}

func unmap(b []byte) { unix.Munmap(b) }
