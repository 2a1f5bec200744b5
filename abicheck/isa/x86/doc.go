// Package x86 decodes x86-64 machine code far enough for static verification:
// the length of an instruction, the CPU feature its encoding needs, where it
// sends control, which memory it addresses and which registers it touches.
//
// It covers every encoding of 64-bit mode: legacy, VEX, EVEX (with the APX
// map 4), XOP, REX2, and the AMX opcodes. It is not a disassembler: there are no
// mnemonics and no operand text. Decode looks at 15 bytes at most, allocates
// nothing, and accepts hostile input.
//
// Encodings that no processor defines are rejected where the opcode tables
// say so; an invalid combination of operands may still be accepted, because
// compilers never emit one and rejecting it buys nothing.
package x86
