// Package isa proves, as far as it can be proved from a binary, that no code
// above the baseline processor runs before a CPU test.
//
// Objects are judged exactly, by COMDAT group, before the link: which copy of
// an inline function a linker keeps is decided by command-line order, so an
// object compiled for AVX2 must not offer any. Linked files are judged by the
// provenance of every function above the baseline (when the objects are
// known) and by walks from the places where a loader or a caller enters.
//
// An object is laid out in an address space of its own with its relocations
// applied, so that both kinds of file are one thing to the analyses: an
// image of functions, code bytes and slots.
package isa
