// An inline thread_local has a weak initialiser without a group.
struct S { float f; S() { volatile float x = 2; f = x * 3; } };
inline thread_local S s;
extern "C" void row_avx2(float* p, int) { p[0] = s.f * 2; }
