#include <torch/library.h>

#include "registration.h"
#include "torch_binding.h"

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) { ops.def("twice(Tensor x) -> Tensor"); }

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
