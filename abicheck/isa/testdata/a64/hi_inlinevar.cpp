// An inline variable with a dynamic initialiser.
#include "hdr.h"
static int count;
inline int first() { return __atomic_add_fetch(&count, 1, __ATOMIC_ACQ_REL); }
inline int start = first();
HIDDEN void row_hi(float* p, int n) { p[0] = start + n; }
