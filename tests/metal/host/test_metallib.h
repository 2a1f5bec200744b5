// What the build generates from the .metal sources, with a library of no bytes.
#pragma once

#include <Metal/Metal.h>
#include <dispatch/dispatch.h>

#include <cstddef>

namespace test_metal {

static const unsigned char metallib_data[] = {0};
static const size_t metallib_size = sizeof(metallib_data);

inline id<MTLLibrary> createLibrary(id<MTLDevice> device, NSError** error = nullptr) {
  dispatch_data_t data = dispatch_data_create(metallib_data, metallib_size, nullptr, nullptr);
  return [device newLibraryWithData:data error:error];
}

}  // namespace test_metal
