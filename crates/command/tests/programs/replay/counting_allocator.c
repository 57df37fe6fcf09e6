// An allocator that forwards to the C library's and keeps in the file COUNTS, as numbers of 8
// bytes: calls of malloc, blocks that are live, the most that were, the smallest and the largest
// size, and threads that called it. Each process begins anew.
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void __libc_free(void *);

enum { CALLS, LIVE, MOST, SMALLEST, LARGEST, THREADS, NUMBERS };
static _Atomic unsigned long *counts;
static __thread int is_counted __attribute__((tls_model("initial-exec")));

__attribute__((constructor)) static void begin(void) {
    int file = open(COUNTS, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || ftruncate(file, NUMBERS * 8)) {
        abort();
    }
    void *memory = mmap(NULL, NUMBERS * 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) {
        abort();
    }
    close(file);
    counts = memory;
    counts[SMALLEST] = -1ul;
}

static void raise_to(_Atomic unsigned long *most, unsigned long value) {
    unsigned long now = *most;
    while (now < value && !atomic_compare_exchange_weak(most, &now, value)) {
    }
}

static void lower_to(_Atomic unsigned long *least, unsigned long value) {
    unsigned long now = *least;
    while (now > value && !atomic_compare_exchange_weak(least, &now, value)) {
    }
}

void *malloc(size_t size) {
    if (counts) {
        counts[CALLS]++;
        counts[THREADS] += !is_counted;
        is_counted = 1;
        lower_to(&counts[SMALLEST], size);
        raise_to(&counts[LARGEST], size);
        long live = ++counts[LIVE];
        // The C library may have freed its own blocks, which were not counted.
        raise_to(&counts[MOST], live > 0 ? live : 0);
    }
    return __libc_malloc(size);
}

void free(void *block) {
    if (counts && block) {
        counts[LIVE]--;
    }
    __libc_free(block);
}

void *calloc(size_t count, size_t size) {
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) {
    return __libc_realloc(block, size);
}
