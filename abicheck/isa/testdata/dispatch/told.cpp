// The choice is made elsewhere and told to the library, so no walk can see a
// CPU test: build.toml has to name have_fast as a guard, or row as a dispatcher.
#include "dispatch.h"
static int level;
extern "C" void set_level(int l) { level = l; }
extern "C" HIDDEN NOINLINE int have_fast() { return level > 1; }
extern "C" void row(float* p, int n) {
  if (have_fast()) row_avx2(p, n);
  else row_slow(p, n);
}
