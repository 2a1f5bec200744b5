/* Loads a library and calls one function of it. It also answers what the
   fixtures for other systems ask: no feature is there. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
int sysctlbyname(const char* name, void* old, size_t* size, void* new, size_t n) {
  (void)name, (void)size, (void)new, (void)n;
  *(int*)old = 0;
  return 0;
}
int main(int argc, char** argv) {
  float p[64] = {1, 2, 3};
  void* h = dlopen(argv[1], RTLD_NOW);
  if (!h) { fprintf(stderr, "%s\n", dlerror()); return 3; }
  if (argc > 2 && argv[2][0]) {
    void* f = dlsym(h, argv[2]);
    if (!f) { fprintf(stderr, "%s\n", dlerror()); return 4; }
    ((void (*)(float*, int))f)(p, 32);
  }
  return 0;
}
