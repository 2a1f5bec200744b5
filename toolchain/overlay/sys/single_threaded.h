/* libstdc++ asks glibc 2.32's __libc_single_threaded whether it may skip
   atomic instructions. The libraries made here also run with glibc 2.28, which
   has no such variable, so the answer is a constant: there may be threads. */
#ifndef THOXBUILD_SINGLE_THREADED_H
#define THOXBUILD_SINGLE_THREADED_H
enum { __libc_single_threaded = 0 };
#endif
