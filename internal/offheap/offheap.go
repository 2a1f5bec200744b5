// Package offheap gives memory that the garbage collector neither counts nor
// keeps: what is mapped for a step of the work is back with the system as soon
// as the step ends, and no garbage may grow beside it meanwhile.
package offheap

import "unsafe"

// least is from how many bytes on a request is mapped; what is smaller lies on
// the heap, where it costs no call and no page of its own.
const least = 256 << 10

// An Arena is memory that is given back at once. The zero value is empty. It
// is not safe for use by several goroutines.
type Arena struct {
	mapped [][]byte
}

// Make returns n zero values of a type without pointers, which the collector
// would not see. They must not be used after Free. Pages that are never
// written to take no memory, so n may be an upper bound. A nil arena gives
// ordinary memory.
func Make[T any](a *Arena, n int) ([]T, error) {
	var zero T
	size := uintptr(n) * unsafe.Sizeof(zero)
	if a == nil || size < least {
		return make([]T, n), nil
	}
	b, err := mapped(int(size))
	if err != nil {
		return nil, err
	}
	a.mapped = append(a.mapped, b)
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), n), nil
}

// Free gives back everything that was made.
func (a *Arena) Free() {
	for _, b := range a.mapped {
		unmap(b)
	}
	a.mapped = nil
}
