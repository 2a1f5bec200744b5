/* No include guard: glibc's headers include this file once for each of them.

   The bundled headers are newer than the glibc that is targeted. With C++ they
   declare the math functions of C23 (rsqrt, sinpi, ...), which glibc has from
   2.41 on and which clash with the functions of the same names in CUDA. */
#include_next <bits/libc-header-start.h>
#if !defined __GLIBC_MINOR__ || __GLIBC_MINOR__ < 41
# undef __GLIBC_USE_IEC_60559_FUNCS_EXT_C23
# define __GLIBC_USE_IEC_60559_FUNCS_EXT_C23 0
# undef __GLIBC_USE_IEC_60559_FUNCS_EXT_C2X
# define __GLIBC_USE_IEC_60559_FUNCS_EXT_C2X 0
#endif
