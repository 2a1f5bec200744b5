// What torch's own header of its MPS stream names, declared and no more.
#pragma once

#include <Metal/Metal.h>

@class MPSCommandBuffer;
