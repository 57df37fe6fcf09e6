/* Compiled to several libraries that differ only in the name of the function NAME,
 * so they can be loaded at the same address one after the other. */
#include <stdlib.h>

static void *volatile sink;

__attribute__((noinline)) void NAME(size_t bytes) {
    void *block = malloc(bytes);
    sink = block;
    free(block);
    __asm__ volatile("");
}

__attribute__((noinline)) void enter(size_t bytes) {
    NAME(bytes);
    __asm__ volatile("");
}

/* Calls the program back. */
__attribute__((noinline)) void call_back(void (*function)(void)) {
    function();
    __asm__ volatile("");
}
