/* A library, preloaded after the recorder, that counts every allocation that a
 * process completes: by process id, in the file named by `COUNTED_ALLOCATIONS`, an
 * array of 64-bit numbers that all processes of a recording map. For programs whose
 * counts do not follow from a source of ours. A forked child counts under its own
 * id. */
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
/* Calls from before the file was mapped: all from one thread. */
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

/* The next definition of the function in which this is used. It is looked up once;
 * dlsym(3) of glibc allocates nothing if it finds the symbol. */
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

/* Not passed on: glibc's would call `realloc`, which counts. */
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
