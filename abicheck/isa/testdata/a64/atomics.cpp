// Every kind of outline atomic.
#include <atomic>
std::atomic<long> a;
std::atomic<int> b;
std::atomic<unsigned char> c;
extern "C" void row(float* p, int n) {
  a += n; a |= 1; a &= ~2L; a ^= 3;
  p[0] = a.exchange(n) + b.fetch_add(1, std::memory_order_relaxed) + c.fetch_sub(1, std::memory_order_release);
  int want = 7;
  b.compare_exchange_strong(want, 8, std::memory_order_acquire);
}
