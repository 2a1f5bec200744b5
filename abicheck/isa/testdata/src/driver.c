/* Loads a library and calls one function of it with plausible arguments. */
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char** argv) {
  float p[64] = {1, 2, 3};
  void* h = dlopen(argv[1], RTLD_NOW);
  if (!h) { fprintf(stderr, "%s\n", dlerror()); return 3; }
  if (argc > 2 && argv[2][0]) {
    void* f = dlsym(h, argv[2]);
    if (!f) { fprintf(stderr, "%s\n", dlerror()); return 4; }
    if (argv[2][0] == 'b') ((float (*)(const float*, int))f)(p, 32);
    else ((void (*)(float*, int))f)(p, 32);
  }
  return 0;
}
