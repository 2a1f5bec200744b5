/* An extension module that breaks rules when macros say so; without any it is
   clean for manylinux_2_28 and the limited API of Python 3.9. */
#include <stddef.h>

#define HIDDEN __attribute__((visibility("hidden")))
#define PUBLIC __attribute__((visibility("default")))

extern void *PyModule_Create2(void *, int);

#ifdef NEW_GLIBC
/* Bound to the version by name, so that any C library new enough to have it
   will do for this test. */
extern int pthread_create(void *, const void *, void *(*)(void *), void *);
__asm__(".symver pthread_create,pthread_create@GLIBC_2.34");
HIDDEN int use_new_glibc(void) { return pthread_create(NULL, NULL, NULL, NULL); }
#endif

#ifdef NEW_PYTHON
extern void *PyType_GetName(void *);
HIDDEN void *use_new_python(void *t) { return PyType_GetName(t); }
#endif

#ifdef UNSTABLE_TORCH
extern char typeinfo __asm__("_ZTIN3c105ErrorE");
HIDDEN void *use_torch(void) { return &typeinfo; }
#endif

#ifdef OWN_PATH
HIDDEN const char *path(void) { return "/home/somebody/project/module.c"; }
const char *(*keep_path)(void) HIDDEN = path;
#endif

#ifdef EXPORT
PUBLIC int launch(void) { return 1; }
#endif

#ifdef STATIC_TLS
__attribute__((tls_model("initial-exec"))) HIDDEN __thread int counter;
HIDDEN int count(void) { return ++counter; }
#endif

#ifdef LOADER
HIDDEN const char loader[] __attribute__((section(".interp"), used)) = "/lib64/ld-linux-x86-64.so.2";
#endif

#ifdef TEXT_RELOCATION
/* An address in the code, which the loader has to fill in. */
__asm__(".text\n.hidden here\n.globl here\nhere: .quad here");
#endif

PUBLIC void *PyInit__k(void) {
	static char def[256];
	return PyModule_Create2(def, 1013);
}
