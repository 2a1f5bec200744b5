// A branch that has nothing to do with the processor.
#include "a64.h"
static int mode;
void set_mode(int m) { mode = m; }
void row(float* p, int n) { if (mode == 0) row_hi(p, n); else slow(p, n); }
