#include "hdr.h"
HIDDEN void row_hi(float* p, int n) { hdr_scale(p, n); }
