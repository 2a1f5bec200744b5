#include "hdr.h"
extern "C" void row(float* p, int n) { hdr_scale(p, n); }
