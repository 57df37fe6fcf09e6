/* Deallocations by every function, with an allocator in which one may call another
 * (sized_library.c). The functions are looked up: a C library older than C23 lacks
 * some of them.
 *
 * 1,000 blocks of 1 to 1,000 bytes by `small`, 500 of 128 by `large`, 100 of 16 by
 * `old`, 200 of 64 by `aligned`, and one of 100 that becomes 200 in `grown`. Each is
 * freed once, the one of 100 by its reallocation: 1,802 allocations and as many
 * deallocations; freeing null is none. The bytes are 500,500 + 64,000
 * + 1,600 + 12,800 + 300. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>

static void *volatile block;
static void (*sized)(void *, size_t);
static void (*aligned_sized)(void *, size_t, size_t);
static void (*other)(void *);

__attribute__((noinline)) static void small(int i) {
    block = malloc(i + 1);
    sized(block, i + 1);
}

__attribute__((noinline)) static void large(void) {
    block = aligned_alloc(64, 128);
    aligned_sized(block, 64, 128);
}

__attribute__((noinline)) static void old(void) {
    block = malloc(16);
    other(block);
}

__attribute__((noinline)) static void aligned(void) {
    void *result;
    if (posix_memalign(&result, 64, 64) != 0)
        abort();
    block = result;
    free(block);
}

__attribute__((noinline)) static void grown(void) {
    block = reallocarray(0, 10, 10);
    block = reallocarray(block, 20, 10);
    free(block);
}

int main(void) {
    sized = dlsym(RTLD_DEFAULT, "free_sized");
    aligned_sized = dlsym(RTLD_DEFAULT, "free_aligned_sized");
    other = dlsym(RTLD_DEFAULT, "cfree");
    for (int i = 0; i < 1000; i++)
        small(i);
    for (int i = 0; i < 500; i++)
        large();
    for (int i = 0; i < 100; i++)
        old();
    for (int i = 0; i < 200; i++)
        aligned();
    grown();
    sized(0, 0);
    aligned_sized(0, 64, 0);
    return 0;
}
