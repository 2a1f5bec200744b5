# A weak function free of AVX whose group carries a local helper that is not:
# GCC's comdat-local functions look like this.
  .section .text._Z4convt,"axG",@progbits,_Z4convt,comdat
  .weak _Z4convt
  .type _Z4convt,@function
_Z4convt:
  call helper
  ret
  .size _Z4convt,.-_Z4convt
  .type helper,@function
helper:
  vmovd %edi,%xmm0
  vcvtph2ps %xmm0,%xmm0
  ret
  .size helper,.-helper
  .section .note.GNU-stack,"",@progbits
