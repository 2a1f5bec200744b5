#include "hdr.h"
extern "C" float base_dot(const float*, int n) { Half h{(unsigned short)n}; return h; }
