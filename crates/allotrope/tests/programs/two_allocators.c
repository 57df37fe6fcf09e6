/* Two allocators in one process, and a program with a malloc of its own.
 *
 * `two_allocators LIBRARY`: opens a library, takes 5 blocks of 4321 bytes from the malloc of
 *     LIBRARY and 3 from the program's own, writes a line, and waits for the end of the
 *     standard input.
 * With -DOWN: the program's malloc is defined here. With -DLIBRARY: the library. */
#define _GNU_SOURCE
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#if defined LIBRARY || defined OWN
static char area[1 << 20];
static size_t used;

void *malloc(size_t size) {
    size_t start = (used + 15) & ~(size_t)15;
    if (size > sizeof area - start)
        return NULL;
    used = start + size;
    return area + start;
}

void free(void *block) { (void)block; }
#endif

#ifndef LIBRARY
#include <dlfcn.h>
#include <stdlib.h>

int main(int count, char **words) {
    void *volatile block;
    if (count > 1) {
        void *library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
        void *(*other)(size_t) = library ? (void *(*)(size_t))dlsym(library, "malloc") : NULL;
        if (!other)
            return 1;
        for (int i = 0; i < 5; i++)
            block = other(4321);
    }
    for (int i = 0; i < 3; i++)
        block = malloc(4321);
    (void)block;
    char byte;
    if (write(1, "ready\n", 6) != 6 || read(0, &byte, 1) < 0)
        return 2;
    return 0;
}
#endif
