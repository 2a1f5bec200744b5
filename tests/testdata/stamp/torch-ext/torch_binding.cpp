#include "registration.h"

extern "C" const char* stamp_text(int n);
extern "C" __attribute__((visibility("default"))) const char* stamp_call() { return stamp_text(0); }

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
