// An entry that is exported, and a global helper that is no entry.
int helper(int* p) { return __atomic_add_fetch(p, 1, __ATOMIC_ACQ_REL); }
void row_hi(float* p, int n) { p[0] = __atomic_add_fetch(&n, 2, __ATOMIC_ACQ_REL) + helper(&n); }
