// Reference counts: the release of a shared_ptr is weak, and torch 2.4 for
// AArch64 had it with LSE atomics.
#include "hdr.h"
#include <memory>
HIDDEN void row_hi(float* p, int n) { std::shared_ptr<int> a = std::make_shared<int>(n), b = a; p[0] = *b; }
