# A table behind code that looks like VEX and EVEX.
  .text
  .globl row
  .type row,@function
row:
  lea table(%rip),%rax
  mov (%rax,%rdi),%eax
  ret
  .size row,.-row
table:
  .byte 0xc5,0xf8,0x77,0x62,0xf1,0x7c,0x48,0x58,0x06,0x06,0x06,0x60,0x61,0x62
  .section .note.GNU-stack,"",@progbits
