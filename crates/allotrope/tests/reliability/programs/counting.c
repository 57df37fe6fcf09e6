/* A library that counts what a recording must show, preloaded behind the
 * recorder: every allocation that a process completes, by process id, in the
 * file named by `COUNTED_ALLOCATIONS`, an array of 64-bit numbers that all
 * processes of a family map. It serves programs whose counts no source tells.
 * A forked child counts under its own id. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define IDS (1 << 22)

static _Atomic uint64_t *counts;
/* Calls that came before the file was there: all from one thread. */
static uint64_t early;

__attribute__((constructor)) static void open_counts(void) {
    const char *name = getenv("COUNTED_ALLOCATIONS");
    int file = name == NULL ? -1 : open(name, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return;
    void *mapped =
        mmap(NULL, IDS * sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped == MAP_FAILED)
        return;
    counts = (_Atomic uint64_t *)mapped;
    atomic_fetch_add(&counts[getpid()], early);
}

static void *counted(void *block) {
    if (block == NULL)
        return NULL;
    if (counts == NULL)
        early++;
    else
        atomic_fetch_add(&counts[getpid()], 1);
    return block;
}

/* The next definition of the function that this stands in. It is looked up
 * once; dlsym(3) of glibc allocates nothing where it finds the symbol. */
#define NEXT(name)                                                                              \
    ({                                                                                          \
        static __typeof__(name) *next;                                                          \
        if (next == NULL)                                                                       \
            next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name);                                 \
        next;                                                                                   \
    })

void *malloc(size_t size) {
    return counted(NEXT(malloc)(size));
}

void *calloc(size_t count, size_t size) {
    return counted(NEXT(calloc)(count, size));
}

void *realloc(void *block, size_t size) {
    return counted(NEXT(realloc)(block, size));
}

/* glibc's own would come back as `realloc`. */
void *reallocarray(void *block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(block, bytes);
}

void *memalign(size_t alignment, size_t size) {
    return counted(NEXT(memalign)(alignment, size));
}

void *aligned_alloc(size_t alignment, size_t size) {
    return counted(NEXT(aligned_alloc)(alignment, size));
}

int posix_memalign(void **block, size_t alignment, size_t size) {
    int result = NEXT(posix_memalign)(block, alignment, size);
    if (result == 0)
        counted(*block);
    return result;
}
