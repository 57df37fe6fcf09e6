/* Blocks that differ, for `show --blocks`. `make_block` allocates, in this order:
 *   100 blocks of 1 to 100 bytes, the block of n bytes freed by `deeper` at depth n, at
 *   once: 100 stacks that free, more than a site lists;
 *   a pause of 50 ms;
 *   1 block of 5,000 bytes that is never freed. */
#include <stdlib.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static void *volatile kept;

NOINLINE static void *make_block(size_t size) {
    return malloc(size);
}

NOINLINE static void deeper(void *block, int depth) {
    if (depth > 1)
        deeper(block, depth - 1);
    else
        free(block);
    __asm__ volatile("" ::: "memory");
}

int main(void) {
    for (int n = 1; n <= 101; n++) {
        if (n == 101)
            usleep(50000);
        void *block = make_block(n == 101 ? 5000 : n);
        if (n == 101)
            kept = block;
        else
            deeper(block, n);
    }
    return 0;
}
