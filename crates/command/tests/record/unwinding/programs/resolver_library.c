/* A library whose resolver allocates, see resolver.c. */
#include <stdlib.h>

void *library_block;
static int implementation(void) { return 4; }

__attribute__((noipa)) int (*plugin_resolving(void))(void) {
    library_block = malloc(107);
    __asm__ volatile("");
    return implementation;
}
int from_library(void) __attribute__((ifunc("plugin_resolving")));
