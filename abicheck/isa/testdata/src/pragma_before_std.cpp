#pragma GCC target("avx2")
#include <vector>
extern "C" void row(float* p, int n) { std::vector<float> v; for (int i = 0; i < n; i++) v.push_back(p[i] * 2); p[0] = v.back(); }
