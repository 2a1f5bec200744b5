"""A metallib as the header that thoxbuild generates: embed.py LIBRARY NAMESPACE."""

import sys

path, namespace = sys.argv[1:]
with open(path, "rb") as f:
    data = f.read()
print("#pragma once\n\n#include <Metal/Metal.h>\n#include <dispatch/dispatch.h>\n\n#include <cstddef>\n")
print(f"namespace {namespace} {{\n\nstatic const unsigned char metallib_data[] = {{")
for i in range(0, len(data), 16):
    print("    " + ",".join(f"0x{b:02x}" for b in data[i : i + 16]) + ",")
print("""};
static const size_t metallib_size = sizeof(metallib_data);

inline id<MTLLibrary> createLibrary(id<MTLDevice> device, NSError **error = nullptr) {
  dispatch_data_t data = dispatch_data_create(metallib_data, metallib_size, nullptr, nullptr);
  return [device newLibraryWithData:data error:error];
}
""")
print(f"}}  // namespace {namespace}")
