/* Loads libraries and calls functions of them, and says for each which of
   them this processor cannot run. Arguments: a library, its functions joined
   by commas, the next library, ... Prints "library function ok|SIGILL|none". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static sigjmp_buf back;
static void ill(int sig) { siglongjmp(back, sig); }

int main(int argc, char** argv) {
  struct sigaction sa;
  memset(&sa, 0, sizeof sa);
  sa.sa_handler = ill;
  sa.sa_flags = SA_NODEFER;
  sigaction(SIGILL, &sa, 0);
  for (int i = 1; i + 1 < argc; i += 2) {
    void* volatile h = 0;
    if (sigsetjmp(back, 1)) {
      printf("%s dlopen SIGILL\n", argv[i]);
      continue;
    }
    h = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
    if (!h) {
      printf("%s dlopen none %s\n", argv[i], dlerror());
      continue;
    }
    for (char* name = strtok(argv[i + 1], ","); name; name = strtok(0, ",")) {
      static float p[256];
      void* f = dlsym(h, name);
      if (!f) {
        printf("%s %s none\n", argv[i], name);
      } else if (sigsetjmp(back, 1)) {
        printf("%s %s SIGILL\n", argv[i], name);
      } else {
        ((float (*)(float*, int))f)(p, 32);
        printf("%s %s ok\n", argv[i], name);
      }
      fflush(stdout);
    }
  }
  return 0;
}
