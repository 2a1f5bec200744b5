// What torch's own header of its MPS stream names, declared and no more.
#pragma once

#include <MetalPerformanceShaders/MetalPerformanceShaders.h>

@class MPSGraph;
@class MPSGraphExecutionDescriptor;
@class MPSGraphCompilationDescriptor;
