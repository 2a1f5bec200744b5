// A struct of features behind a guarded static.
#include "a64.h"
namespace {
struct Features { bool dot, mm; Features() : dot(getauxval(hwcap) & asimddp), mm(getauxval(hwcap2) & i8mm) {} };
const Features& features() { static const Features f; return f; }
}
void row(float* p, int n) { if (features().dot) row_hi(p, n); else slow(p, n); }
