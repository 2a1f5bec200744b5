#include "shared.h"
#include "base_only.h"
int twice(int x) { return 2 * x; }
