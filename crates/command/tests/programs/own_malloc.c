/* A program with an allocator of its own linked into it. With -DWAITS it writes a line and waits for
 * the end of the standard input. With -DLIBRARY: only the allocator. */
#include <stddef.h>

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

#ifndef LIBRARY
#include <unistd.h>

int main(void) {
    void *volatile block = malloc(7);
    free(block);
#ifdef WAITS
    char byte;
    if (write(1, "ready\n", 6) != 6 || read(0, &byte, 1) < 0)
        return 1;
    return 0;
#else
    return 5;
#endif
}
#endif
