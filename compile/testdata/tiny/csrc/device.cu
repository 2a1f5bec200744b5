#include "shared.h"
__global__ void twice_kernel(int *x) { *x *= 2; }
