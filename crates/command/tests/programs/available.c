/* Prints which allocation functions the process has, looked up in the two ways that
 * programs use: a weak reference, and dlsym. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

#define WEAK(name) extern void name(void) __attribute__((weak));
#define SAY(name)                                                              \
    printf("%s: weak %s, dlsym %s\n", #name, name != 0 ? "yes" : "no",         \
           dlsym(RTLD_DEFAULT, #name) != NULL ? "yes" : "no");
#define ALL(DO)                                                                \
    DO(mallocx) DO(rallocx) DO(xallocx) DO(sallocx) DO(dallocx) DO(sdallocx)   \
    DO(nallocx) DO(mallctl) DO(tc_free) DO(je_malloc)                          \
    DO(malloc_usable_size) DO(_Znwm) DO(_ZdlPv) DO(tc_malloc) DO(mi_malloc)

ALL(WEAK)

int main(void) {
    ALL(SAY)
    return 0;
}
