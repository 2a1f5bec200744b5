// Function multi-versioning: the compiler writes the resolver.
#include "a64.h"
__attribute__((target_clones("dotprod", "sve", "default"))) void row(float* p, int n) { for (int i = 0; i < n; i++) p[i] = p[i] * 2 + 1; }
