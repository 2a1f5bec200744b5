/* loader PYTHON LIBRARY INIT: loads a torch extension as Python does, with the
 * names of Python's C API from the library PYTHON, and calls its function INIT
 * ("-" for none). It says on stdout how far it got. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  /* The interpreter's names are global; those of torch reach the extension by
   * its own DT_NEEDED entries alone. */
  if (!dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL)) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  void *lib = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
  if (!lib) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  printf("loaded\n");
  if (strcmp(argv[3], "-") != 0) {
    void *(*init)(void) = (void *(*)(void))dlsym(lib, argv[3]);
    if (!init || !init()) {
      fprintf(stderr, "%s gave no module\n", argv[3]);
      return 1;
    }
    printf("initialised\n");
  }
  return 0; /* the destructors of static objects run now */
}
