/* Has an allocator linked into it; -Dallocate=NAME says under which name. */
#include <stdlib.h>

void *allocate(size_t size)
{
    static char memory[1 << 16];
    static size_t used;
    used += size;
    return used <= sizeof memory ? memory + used - size : NULL;
}

int main(void) { return allocate(10) == NULL; }
