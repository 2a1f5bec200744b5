// A table behind code; its words look like SVE and LSE.
  .text
  .globl row
  .type row,%function
row:
  adr x2, table
  ldr w3, [x2]
  str w3, [x0]
  ret
  .p2align 3
table:
  .word 0x04e0e3e0, 0xb8e00020, 0x4e809420, 0x04bf5000
  .size row,.-row
  .section .note.GNU-stack,"",%progbits
