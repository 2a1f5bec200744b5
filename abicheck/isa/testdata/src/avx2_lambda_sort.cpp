// A lambda in a function with C linkage stays local.
extern "C" void row_avx2(float* p, int n) {
  auto less = [](float a, float b) { return a * 2 < b * 2; };
  for (int i = 1; i < n; i++)
    for (int j = i; j > 0 && less(p[j], p[j - 1]); j--) { float t = p[j]; p[j] = p[j - 1]; p[j - 1] = t; }
}
