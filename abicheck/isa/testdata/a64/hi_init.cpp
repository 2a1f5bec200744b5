// A global whose constructor is compiled for LSE.
#include "hdr.h"
static int count;
struct Counted { int n; Counted() : n(__atomic_add_fetch(&count, 1, __ATOMIC_ACQ_REL)) {} };
static Counted counted;
HIDDEN void row_hi(float* p, int n) { p[0] = counted.n + n; }
