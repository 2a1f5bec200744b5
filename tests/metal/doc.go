// Package metal tests the Metal backend of kernels-src/thox-edge-ops on a
// machine without a Mac.
//
// msl gives the names of the Metal Shading Language that the shaders use a C++
// meaning, so clang compiles the unmodified .metal files. harness runs them:
// threads as fibres, simdgroup functions and barriers as rendezvous, launches
// as the host code plans them, in memory that traps. host declares the parts of
// Metal that the Objective-C++ host code uses, hosttorch those of torch's MPS
// stream.
// features.txt says which version of Metal brought each name. xcode/xcrun stands
// in for Xcode, and mac.sh is what runs on a Mac: see tests/script/macos.txtar.
//
// What this cannot show is in docs/macos.md.
package metal
