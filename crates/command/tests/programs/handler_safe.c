/* An allocator that may be called in a signal handler that interrupts it: it never
 * reuses memory. To be preloaded. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#define AREA ((size_t)4 << 30)

static _Atomic(char *) area;
static atomic_size_t used;

static char *start(void) {
    char *known = area;
    if (known)
        return known;
    char *fresh = mmap(NULL, AREA, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED)
        return NULL;
    if (atomic_compare_exchange_strong(&area, &known, fresh))
        return fresh;
    munmap(fresh, AREA);
    return known;
}

void *malloc(size_t size) {
    char *first = start();
    if (!first || size > AREA / 2)
        return NULL;
    size_t taken = (size + 31) & ~(size_t)15;
    size_t at = atomic_fetch_add(&used, taken);
    if (at + taken > AREA)
        return NULL;
    memcpy(first + at, &size, sizeof size);
    return first + at + 16;
}

void free(void *block) {
}

void *calloc(size_t count, size_t size) {
    size_t bytes;
    return __builtin_mul_overflow(count, size, &bytes) ? NULL : malloc(bytes);
}

void *realloc(void *block, size_t size) {
    void *fresh = malloc(size);
    if (fresh && block) {
        size_t old;
        memcpy(&old, (char *)block - 16, sizeof old);
        memcpy(fresh, block, old < size ? old : size);
    }
    return fresh;
}
