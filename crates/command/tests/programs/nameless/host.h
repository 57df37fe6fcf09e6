// What the programs of this folder share. Each is a library, if it is compiled with LIBRARY,
// and the program that loads it. Its head says what is stripped, the library's name, and the
// code that has to stand for the 300 allocations.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

// Keeps blocks and calls from being optimised away.
static volatile long sink;

static inline void *symbol(const char *path, const char *name) {
    void *library = dlopen(path, RTLD_NOW);
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) _exit(9);
    return found;
}

// push %rbp; mov %rsp, %rbp; call *%rsi; pop %rbp; ret
static inline void *jit_code(void) {
    static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd6, 0x5d, 0xc3};
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    return page;
}
