// Return addresses that are signed by instructions that trap where they are
// unknown, not by hints.
__attribute__((visibility("hidden"))) void row_hi(float* p, int n) { unsigned long x = n; __asm__("pacia %0, %1" : "+r"(x) : "r"(p)); p[0] = x; }
