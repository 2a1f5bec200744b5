#include <memory>
extern "C" void row(float* p, int n) { std::shared_ptr<int> a = std::make_shared<int>(n), b = a; p[0] = *b; }
