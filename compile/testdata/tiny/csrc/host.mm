#include EMBEDDED_METALLIB_HEADER
#include "shared.h"
