// zig ships the newest glibc headers for every target version. The C23 math
// functions in them (rsqrt, sinpi, ...) exist in no glibc below 2.41, and
// their declarations clash with CUDA's own functions of the same names.
// No include guard: every libc header includes this file anew.
#include_next <bits/libc-header-start.h>

#if defined(__GLIBC__) && (__GLIBC__ < 2 || (__GLIBC__ == 2 && __GLIBC_MINOR__ < 41))
#undef __GLIBC_USE_IEC_60559_BFP_EXT_C23
#define __GLIBC_USE_IEC_60559_BFP_EXT_C23 0
#undef __GLIBC_USE_IEC_60559_FUNCS_EXT_C23
#define __GLIBC_USE_IEC_60559_FUNCS_EXT_C23 0
#undef __GLIBC_USE_IEC_60559_FUNCS_EXT
#define __GLIBC_USE_IEC_60559_FUNCS_EXT 0
#endif
