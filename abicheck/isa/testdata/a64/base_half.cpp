#include "hdr.h"
extern "C" void row(float* p, int n) { Half h{(unsigned short)n}; p[0] = h; }
