#include "hdr.h"
struct More : Base { int run(int* p) const override { return *p + 2; } };
HIDDEN void row_hi(float* p, int n) { Base* b = n & 1 ? new Base : new More; p[0] = b->run(&n); delete b; }
