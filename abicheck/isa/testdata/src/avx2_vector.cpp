// std::vector<float>::push_back emits _M_realloc_insert.
#include <vector>
extern "C" void row_avx2(float* p, int n) {
  std::vector<float> v;
  for (int i = 0; i < n; i++) v.push_back(p[i] * 2 + 1);
  for (int i = 0; i < n; i++) p[i] = v[i];
}
