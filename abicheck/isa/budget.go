package isa

import "fmt"

// A budget is how many bytes of a file may be read yet, section by section.
// Sections do not overlap in a real file; one where they do could make much
// work and memory out of few bytes.
type budget struct{ left uint64 }

func newBudget(size int64) *budget { return &budget{uint64(size)} }

// take accounts for a section of n bytes.
func (b *budget) take(n uint64, section string) error {
	if n > b.left {
		return fmt.Errorf("section %s: overlaps others: together they are larger than the file", section)
	}
	b.left -= n
	return nil
}
