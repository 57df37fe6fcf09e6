/* A program with an allocator of its own linked into it. */
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

int main(void) {
    void *volatile block = malloc(7);
    free(block);
    return 5;
}
