#include "shared.h"
kernel void twice_kernel() {}
