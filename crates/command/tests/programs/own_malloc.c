/* A program with an allocator of its own linked into it. It allocates one block of SIZE bytes, and frees
 * it. With -DWAITS it writes a line and waits for the end of the standard input before it frees the
 * block. With -DLIBRARY: only the allocator. With -DONLY_MALLOC it defines no `free`, so that it is
 * no allocator that Allotrope can know. */
#include <stddef.h>

#ifndef SIZE
#define SIZE 7
#endif

static char area[1 << 20];
static size_t used;

void *malloc(size_t size) {
    size_t start = (used + 15) & ~(size_t)15;
    if (size > sizeof area - start)
        return NULL;
    used = start + size;
    return area + start;
}

#ifdef ONLY_MALLOC
#define free(block)
#else
void free(void *block) { (void)block; }
#endif

#ifndef LIBRARY
#include <unistd.h>

int main(void) {
    void *volatile block = malloc(SIZE);
#ifdef WAITS
    char byte;
    if (write(1, "ready\n", 6) != 6 || read(0, &byte, 1) < 0)
        return 1;
    free(block);
    return 0;
#else
    free(block);
    return 5;
#endif
}
#endif
