// Package toolchain provides the compilers and headers that a variant needs:
// it fetches pinned packages, unpacks them into a content-addressed store and
// describes them as a Kit.
//
// Nothing is installed on the machine, and no torch, CUDA or Nix installation
// is used: zig's clang and linker come from a wheel, torch's headers are read
// out of the torch wheel by ranged requests, and link stubs stand for the
// libraries that torch brings at run time. Only the C++ standard library of
// the machine's g++ is taken from the machine.
//
// Paths in a Kit are virtual, below VirtualRoot, so that a recorded command
// means the same on every machine; Store.Real maps them to real ones.
//
// Trust: every package is checked against the hash that the index gives and,
// from the second run on, against the one in toolchain.lock. Archives are
// unpacked confined to their folder.
package toolchain

// VirtualRoot is where a Kit's paths lie as far as commands, keys and
// provenance are concerned. It need not exist on any machine.
const VirtualRoot = "/opt/thox"
