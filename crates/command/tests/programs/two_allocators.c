/* Two allocators in one process: `two_allocators LIBRARY` opens a library, takes 5 blocks of 4321
 * bytes from the malloc of LIBRARY and 3 from the program's own, writes a line, and waits for the
 * end of the standard input. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

int main(int count, char **words) {
    void *library = count > 1 ? dlopen(words[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    void *(*other)(size_t) = library ? (void *(*)(size_t))dlsym(library, "malloc") : NULL;
    if (!other)
        return 1;
    void *volatile block;
    for (int i = 0; i < 5; i++)
        block = other(4321);
    for (int i = 0; i < 3; i++)
        block = malloc(4321);
    (void)block;
    char byte;
    if (write(1, "ready\n", 6) != 6 || read(0, &byte, 1) < 0)
        return 2;
    return 0;
}
