// As much of SYCL as the kernel beside it uses, for the stand-in.
#pragma once

extern "C" void thox_sycl_submit();

// icpx makes a constructor that registers the device code.
__attribute__((constructor)) static void thox_register() { thox_sycl_submit(); }
