// tzcnt is emitted for generic targets: it runs as bsf.
extern "C" int low(unsigned x) { return x ? __builtin_ctz(x) : 32; }
