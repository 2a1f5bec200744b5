#include "hdr.h"
extern "C" float base_dot(const float* p, int n) { return hdr_dot(p, p, n); }
