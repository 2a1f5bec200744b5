#include <sycl/sycl.hpp>

extern "C" int relu_launch(float* x, int n, void*) {
  for (int i = 0; i < n; ++i) x[i] = x[i] > 0 ? x[i] : 0;
  thox_sycl_submit();
  return 1;
}
