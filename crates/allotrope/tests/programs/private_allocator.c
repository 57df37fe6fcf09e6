/* Has an allocator linked into it under a name of its own, as mimalloc is. */
#include <stdlib.h>

void *mi_malloc(size_t size)
{
    static char memory[1 << 16];
    static size_t used;
    used += size;
    return used <= sizeof memory ? memory + used - size : NULL;
}

int main(void) { return mi_malloc(10) == NULL; }
