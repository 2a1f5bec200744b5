#include "hdr.h"
extern "C" void row(float* p, int n) { Base* b = new Base; Base* volatile v = b; p[0] = v->run(&n); delete b; }
