/* Counts a program's allocations without Allotrope, for the check of the corpus's truth
 * (findings-recall --check): LD_PRELOAD=counter.so COUNTS=FILE PROGRAM. Bytes are usable sizes.
 * At each sleep of the main thread (once in a program's step) it notes live bytes and RSS. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static atomic_long allocations, allocated, live, peak;
static long held, rss_last, rss_most, sleeps;

static void *born(void *block) {
    if (block) {
        long size = malloc_usable_size(block);
        long now = atomic_fetch_add(&live, size) + size, most = atomic_load(&peak);
        atomic_fetch_add(&allocations, 1);
        atomic_fetch_add(&allocated, size);
        while (now > most && !atomic_compare_exchange_weak(&peak, &most, now)) {
        }
    }
    return block;
}

static void dead(void *block) {
    if (block)
        atomic_fetch_sub(&live, (long)malloc_usable_size(block));
}

void *malloc(size_t size) { return born(__libc_malloc(size)); }
void *calloc(size_t count, size_t size) { return born(__libc_calloc(count, size)); }
void *memalign(size_t alignment, size_t size) { return born(__libc_memalign(alignment, size)); }
void *aligned_alloc(size_t alignment, size_t size) { return born(__libc_memalign(alignment, size)); }

int posix_memalign(void **to, size_t alignment, size_t size) {
    void *block = born(__libc_memalign(alignment, size));
    if (!block)
        return ENOMEM;
    *to = block;
    return 0;
}

void *realloc(void *block, size_t size) {
    dead(block);
    return born(__libc_realloc(block, size));
}

void free(void *block) {
    dead(block);
    __libc_free(block);
}

static void note(void) {
    if (getpid() != syscall(SYS_gettid))
        return;
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file) {
        if (fscanf(file, "%*d %ld", &pages) != 1)
            pages = 0;
        fclose(file);
    }
    rss_last = pages * 4096;
    if (rss_last > rss_most)
        rss_most = rss_last;
    held += atomic_load(&live);
    sleeps++;
}

int nanosleep(const struct timespec *time, struct timespec *left) {
    note();
    return syscall(SYS_nanosleep, time, left);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left) {
    note();
    return syscall(SYS_clock_nanosleep, clock, flags, time, left) ? errno : 0;
}

__attribute__((destructor)) static void report(void) {
    const char *path = getenv("COUNTS");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file)
        return;
    long end = atomic_load(&live);
    fprintf(file, "{\"allocations\": %ld, \"allocated\": %ld, \"peak\": %ld, \"end\": %ld, \"held\": %ld, \"rss\": %ld, \"rss_most\": %ld}\n",
            atomic_load(&allocations), atomic_load(&allocated), atomic_load(&peak), end,
            held / (sleeps ? sleeps : 1), rss_last, rss_most);
    fclose(file);
}
