// Templates and a class in an anonymous namespace.
#include "hdr.h"
namespace {
template <class T> T twice(T x) { return x + x; }
struct Op { virtual ~Op() = default; virtual int run(int* p) const { return __atomic_add_fetch(p, 1, __ATOMIC_ACQ_REL); } };
}
HIDDEN void row_hi(float* p, int n) { Op o; const Op& r = o; p[0] = twice(r.run(&n)); }
