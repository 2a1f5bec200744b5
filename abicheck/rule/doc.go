// Package rule holds the words that every part of abicheck shares: what a
// Finding is, what a Subject offers to look at, and how a Pass announces the
// rules that it can break.
//
// It is a leaf: the readers (elffile, machofile, pefile) lie below it, the
// passes (facts, isa) import it, and package abicheck above imports the
// passes and runs them. A package of passes exports
//
//	func Passes() []rule.Pass
//
// and is listed once in abicheck's own list.
package rule
