// Calls of the allocator whose order, functions, sizes and alignments are known:
// `replay.rs` has the same list. One thread, and nothing else allocates.
#include <malloc.h>
#include <stdlib.h>

#define BLOCKS 40

int main(void) {
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(10 + i);
    // A chain of reallocations, which begins with no block.
    void *chain = NULL;
    for (int size = 8; size <= 8192; size *= 2)
        chain = realloc(chain, size);
    // Every second one, and its place in the heap is used again.
    for (int i = 0; i < BLOCKS; i += 2)
        free(blocks[i]);
    for (int i = 0; i < BLOCKS; i += 2)
        blocks[i] = calloc(3, 7 + i);
    void *aligned;
    if (posix_memalign(&aligned, 64, 100) != 0)
        return 1;
    void *page = aligned_alloc(4096, 8192);
    void *old = memalign(32, 40);
    void *array = reallocarray(NULL, 5, 6);
    array = reallocarray(array, 50, 6);
    // A call that fails is no operation.
    if (malloc((size_t)1 << 60) != NULL)
        return 1;
    free(page);
    free(aligned);
    free(old);
    free(chain);
    for (int i = BLOCKS - 1; i >= 0; i--)
        free(blocks[i]);
    // `array` stays.
    return array == NULL;
}
