// glibc has this header, and the variable it declares, since 2.32 only; a
// library that must load with 2.28 may not refer to it. libstdc++ takes a
// plain path instead of an atomic one where the variable is true, so "false"
// is always right.
#pragma once
#define __libc_single_threaded false
