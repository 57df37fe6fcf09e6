/* Every function of the C library that allocates or frees.
 *
 * `entry_points CASE` runs one case. It uses no stdio, so a recording has only the
 * events of the case. It checks itself what the C library promises: results,
 * alignment, contents, errno. A broken promise is status 99. The comment above a
 * case derives its expected counts; "temporary" follows from the order of calls: a
 * block freed before its thread allocates again. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CASE __attribute__((noipa)) static void
#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition))                                                      \
            broken(#condition "\n", sizeof #condition);                        \
    } while (0)

/* Keeps the compiler from knowing what it could not know in a real program. */
static void *volatile sink;
static volatile size_t huge = PTRDIFF_MAX - 100;
static volatile size_t zero = 0;

__attribute__((noreturn)) static void broken(const char *what, size_t bytes) {
    static const char head[] = "entry_points: broken promise: ";
    ssize_t written = write(2, head, sizeof head - 1);
    written += write(2, what, bytes);
    _exit(written > 0 ? 99 : 98);
}

static void *keep(void *block) {
    sink = block;
    return sink;
}

static int aligned_to(void *block, size_t alignment) {
    return block != NULL && (uintptr_t)block % alignment == 0;
}

static int all_bytes_are(const unsigned char *block, unsigned char value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (block[i] != value)
            return 0;
    return 1;
}

/* truth nothing: */
CASE nothing(void) {}

/* p (10) is never freed; q (20) is freed after r (0) came, so it is not
 * temporary; r is. Most live bytes: 30, reached with p and q and again when r,
 * of no bytes, came; the latest counts, so three blocks.
 * truth malloc: allocations=3 bytes=30 deallocations=2 temporary=1 leaked=1 leaked_bytes=10 peak=3 peak_bytes=30 */
CASE case_malloc(void) {
    void *p = keep(malloc(10));
    void *q = keep(malloc(20));
    void *r = keep(malloc(zero));
    CHECK(aligned_to(p, 16) && aligned_to(q, 16) && aligned_to(r, 16));
    free(q);
    free(r);
}

/* Requests that cannot be met count as nothing, then one of 8 bytes.
 * truth malloc_fails: allocations=1 bytes=8 deallocations=1 temporary=1 peak=1 peak_bytes=8 */
CASE case_malloc_fails(void) {
    errno = 0;
    CHECK(keep(malloc(huge)) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(keep(malloc(SIZE_MAX - zero)) == NULL && errno == ENOMEM);
    errno = EBADF;
    void *p = keep(malloc(8));
    CHECK(p != NULL && errno == EBADF);
    free(p);
    CHECK(errno == EBADF);
}

/* 4*25 = 100 and 1*7 = 7 bytes; the 100 are freed after the 7 came; the
 * product that overflows counts as nothing.
 * truth calloc: allocations=2 bytes=107 deallocations=1 leaked=1 leaked_bytes=7 peak=2 peak_bytes=107 */
CASE case_calloc(void) {
    unsigned char *p = keep(calloc(4, 25));
    unsigned char *q = keep(calloc(1, 7));
    CHECK(all_bytes_are(p, 0, 100) && all_bytes_are(q, 0, 7));
    errno = 0;
    CHECK(keep(calloc(SIZE_MAX / 2 + zero, 4)) == NULL && errno == ENOMEM);
    free(p);
}

/* 16, then 4096 in its place, then 100000 in its place: three allocations of
 * 104112 bytes, two of them by reallocation. Each is freed before the
 * next allocation: three deallocations, three temporary, never two at once.
 * truth realloc_grow: allocations=3 bytes=104112 deallocations=3 reallocations=2 temporary=3 peak=1 peak_bytes=100000 */
CASE case_realloc_grow(void) {
    unsigned char *p = keep(malloc(16));
    memset(p, 0xa5, 16);
    p = keep(realloc(p, 4096));
    CHECK(all_bytes_are(p, 0xa5, 16));
    memset(p, 0x5a, 4096);
    p = keep(realloc(p, 100000));
    CHECK(all_bytes_are(p, 0x5a, 4096));
    free(p);
}

/* 1000 become 10, which are never freed.
 * truth realloc_shrink: allocations=2 bytes=1010 deallocations=1 reallocations=1 temporary=1 leaked=1 leaked_bytes=10 peak=1 peak_bytes=1000 */
CASE case_realloc_shrink(void) {
    unsigned char *p = keep(malloc(1000));
    memset(p, 0x77, 1000);
    p = keep(realloc(p, 10));
    CHECK(all_bytes_are(p, 0x77, 10));
}

/* 64 become 64: the same block, and yet a deallocation and an allocation.
 * truth realloc_same: allocations=2 bytes=128 deallocations=2 reallocations=1 temporary=2 peak=1 peak_bytes=64 */
CASE case_realloc_same(void) {
    void *p = keep(malloc(64));
    p = keep(realloc(p, 64));
    free(p);
}

/* Without a block to replace it is an allocation and no reallocation. The
 * first, of 0 bytes, stays; at the peak both are alive.
 * truth realloc_null: allocations=2 bytes=50 deallocations=1 temporary=1 leaked=1 peak=2 peak_bytes=50 */
CASE case_realloc_null(void) {
    CHECK(keep(realloc(NULL, zero)) != NULL);
    void *p = keep(realloc(NULL, 50));
    free(p);
}

/* The C library frees the block and returns null: a deallocation only.
 * truth realloc_zero: allocations=1 bytes=64 deallocations=1 temporary=1 peak=1 peak_bytes=64 */
CASE case_realloc_zero(void) {
    void *p = keep(malloc(64));
    CHECK(keep(realloc(p, zero)) == NULL);
}

/* A failed one changes nothing: the 40 bytes stay and are then freed, without
 * another allocation in between.
 * truth realloc_fails: allocations=1 bytes=40 deallocations=1 temporary=1 peak=1 peak_bytes=40 */
CASE case_realloc_fails(void) {
    unsigned char *p = keep(malloc(40));
    memset(p, 0x3c, 40);
    errno = 0;
    CHECK(keep(realloc(p, huge)) == NULL && errno == ENOMEM);
    CHECK(all_bytes_are(p, 0x3c, 40));
    free(p);
}

/* As above, but the block that survived is replaced later and then leaks:
 * 40 and 60 bytes, one reallocation.
 * truth realloc_fails_then_grows: allocations=2 bytes=100 deallocations=1 reallocations=1 temporary=1 leaked=1 leaked_bytes=60 peak=1 peak_bytes=60 */
CASE case_realloc_fails_then_grows(void) {
    void *p = keep(malloc(40));
    CHECK(keep(realloc(p, huge)) == NULL);
    CHECK(keep(realloc(p, 60)) != NULL);
}

/* 10*10 without a block, 20*10 in its place; the product that overflows counts
 * as nothing. The C library's own jump to realloc is not counted again.
 * truth reallocarray: allocations=2 bytes=300 deallocations=2 reallocations=1 temporary=2 peak=1 peak_bytes=200 */
CASE case_reallocarray(void) {
    void *p = keep(reallocarray(NULL, 10, 10));
    p = keep(reallocarray(p, 20, 10));
    errno = 0;
    CHECK(keep(reallocarray(p, SIZE_MAX / 2 + zero, 4)) == NULL && errno == ENOMEM);
    free(p);
}

/* 100 and 8 bytes; a wrong alignment and a huge size count as nothing and
 * leave errno alone. Only the second is freed before another allocation.
 * truth posix_memalign: allocations=2 bytes=108 deallocations=2 temporary=1 peak=2 peak_bytes=108 */
CASE case_posix_memalign(void) {
    void *p = NULL;
    void *q = NULL;
    void *untouched = &p;
    errno = EBADF;
    CHECK(posix_memalign(&p, 64, 100) == 0 && aligned_to(p, 64));
    CHECK(posix_memalign(&untouched, 3, 10) == EINVAL && untouched == &p);
    CHECK(posix_memalign(&untouched, 64, huge) == ENOMEM);
    CHECK(posix_memalign(&q, sizeof(void *), 8) == 0 && aligned_to(q, sizeof(void *)));
    CHECK(errno == EBADF || errno == ENOMEM);
    keep(p);
    keep(q);
    free(p);
    free(q);
}

/* 512 and 4096 bytes.
 * truth aligned_alloc: allocations=2 bytes=4608 deallocations=2 temporary=1 peak=2 peak_bytes=4608 */
CASE case_aligned_alloc(void) {
    void *p = keep(aligned_alloc(256, 512));
    void *q = keep(aligned_alloc(4096, 4096));
    CHECK(aligned_to(p, 256) && aligned_to(q, 4096));
    errno = 0;
    CHECK(keep(aligned_alloc(64, huge)) == NULL && errno == ENOMEM);
    free(p);
    free(q);
}

/* 50 bytes, leaked.
 * truth memalign: allocations=1 bytes=50 leaked=1 leaked_bytes=50 peak=1 peak_bytes=50 */
CASE case_memalign(void) {
    CHECK(aligned_to(keep(memalign(128, 50)), 128));
    errno = 0;
    CHECK(keep(memalign(128, huge)) == NULL && errno == ENOMEM);
}

/* 100 bytes at the start of a page.
 * truth valloc: allocations=1 bytes=100 deallocations=1 temporary=1 peak=1 peak_bytes=100 */
CASE case_valloc(void) {
    void *p = keep(valloc(100));
    CHECK(aligned_to(p, (size_t)sysconf(_SC_PAGESIZE)));
    free(p);
}

/* 100 bytes were asked for, whatever was given.
 * truth pvalloc: allocations=1 bytes=100 deallocations=1 temporary=1 peak=1 peak_bytes=100 */
CASE case_pvalloc(void) {
    void *p = keep(pvalloc(100));
    CHECK(aligned_to(p, (size_t)sysconf(_SC_PAGESIZE)));
    CHECK(malloc_usable_size(p) >= 100);
    free(p);
}

/* Five times nothing.
 * truth free_null: */
CASE case_free_null(void) {
    errno = EBADF;
    for (int i = 0; i < 5; i++)
        free((void *)zero);
    CHECK(errno == EBADF);
}

/* Programs linked before glibc 2.26 still call it.
 * truth cfree: allocations=1 bytes=24 deallocations=1 temporary=1 peak=1 peak_bytes=24 */
__asm__(".symver old_cfree, cfree@GLIBC_2.2.5");
extern void old_cfree(void *);
CASE case_cfree(void) {
    void *p = keep(malloc(24));
    old_cfree((void *)zero);
    old_cfree(p);
}

/* The library calls malloc for the program: 6 bytes with the ending zero.
 * truth strdup: allocations=1 bytes=6 deallocations=1 temporary=1 peak=1 peak_bytes=6 */
CASE case_strdup(void) {
    char *p = keep(strdup("hello"));
    CHECK(p[4] == 'o');
    free(p);
}

/* 1 to 1000 bytes, 500500 together. Block i-2 is freed after block i came, so it is
 * not temporary. At the end block 999 is freed, then block 1000: of the two only
 * block 1000 is temporary, since it was allocated after block 999. At most three
 * blocks live: 998 + 999 + 1000 = 2997 bytes.
 * truth many_sizes: allocations=1000 bytes=500500 deallocations=1000 temporary=1 peak=3 peak_bytes=2997 */
CASE case_many_sizes(void) {
    void *blocks[1001];
    for (size_t i = 1; i <= 1000; i++) {
        blocks[i] = keep(malloc(i));
        if (i > 2)
            free(blocks[i - 2]);
    }
    free(blocks[999]);
    free(blocks[1000]);
}

/* One block of 3 GiB, never touched: sizes do not wrap at 32 bits.
 * truth large: allocations=1 bytes=3221225472 deallocations=1 temporary=1 peak=1 peak_bytes=3221225472 */
CASE case_large(void) {
    void *p = keep(malloc((size_t)3 << 30));
    CHECK(p != NULL);
    free(p);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"nothing", nothing},
    {"malloc", case_malloc},
    {"malloc_fails", case_malloc_fails},
    {"calloc", case_calloc},
    {"realloc_grow", case_realloc_grow},
    {"realloc_shrink", case_realloc_shrink},
    {"realloc_same", case_realloc_same},
    {"realloc_null", case_realloc_null},
    {"realloc_zero", case_realloc_zero},
    {"realloc_fails", case_realloc_fails},
    {"realloc_fails_then_grows", case_realloc_fails_then_grows},
    {"reallocarray", case_reallocarray},
    {"posix_memalign", case_posix_memalign},
    {"aligned_alloc", case_aligned_alloc},
    {"memalign", case_memalign},
    {"valloc", case_valloc},
    {"pvalloc", case_pvalloc},
    {"free_null", case_free_null},
    {"cfree", case_cfree},
    {"strdup", case_strdup},
    {"many_sizes", case_many_sizes},
    {"large", case_large},
};

int main(int argc, char **argv) {
    for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    }
    return 98;
}
