//go:build unix

package isa

import "golang.org/x/sys/unix"

// offHeap returns n zero bytes outside the garbage-collected heap and what
// gives them back. The code of a large library is most of what a check holds;
// on the heap the collector would let as much garbage grow beside it.
func offHeap(n int) (b []byte, free func(), err error) {
	b, err = unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, nil, err
	}
	return b, func() { unix.Munmap(b) }, nil
}
