#include "../csrc/shared.h"
int twice_wide(int x) { return 2 * x; }
