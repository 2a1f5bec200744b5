__attribute__((visibility("hidden"))) void row_hi(float* p, int n) { unsigned c = n; __asm__("crc32w %w0, %w0, %w1" : "+r"(c) : "r"(n)); p[0] = c; }
