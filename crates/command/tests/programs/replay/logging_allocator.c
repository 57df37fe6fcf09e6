// An allocator that forwards to the C library's and writes each call to the file that the
// variable CALLS names: a line with process, thread, function, arguments and result.
// With -DSLOW, malloc also takes long; with -DCRASH_AT=n, the nth malloc ends the process;
// with -DFAIL_FROM=n, malloc of n bytes and more fails; with -DHANG, malloc never returns;
// with -DNO_REALLOC there is no realloc; with -DLOUD, the first malloc prints 100,000 lines, then
// "the end", and aborts; with -DEXITS_AT_START, the process prints "cannot" and ends with status 7
// when the library is loaded.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

static int file = -2;

static void note(const char *call, unsigned long a, unsigned long b, void *result) {
    if (file == -2) {
        const char *path = getenv("CALLS");
        file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    }
    if (file < 0)
        return;
    char line[128];
    int length = snprintf(line, sizeof line, "%d %ld %s %lx %lx %lx\n", getpid(),
                          syscall(SYS_gettid), call, a, b, (unsigned long)result);
    if (write(file, line, length) != length)
        abort();
}

// Without a buffer that would be allocated.
static inline void print(const char *text) {
    if (write(2, text, strlen(text)) < 0)
        _exit(1);
}

#ifdef EXITS_AT_START
__attribute__((constructor)) static void end(void) {
    print("cannot\n");
    _exit(7);
}
#endif

void *malloc(size_t size) {
#ifdef LOUD
    for (int i = 0; i < 100000; i++)
        print("and so on\n");
    print("the end\n");
    abort();
#endif
#ifdef SLOW
    for (volatile int i = 0; i < 30000; i++)
        ;
#endif
#ifdef HANG
    for (;;)
        pause();
#endif
#ifdef CRASH_AT
    static int calls;
    if (++calls == CRASH_AT)
        *(volatile int *)8 = 0;
#endif
#ifdef FAIL_FROM
    if (size >= FAIL_FROM)
        return NULL;
#endif
    void *block = __libc_malloc(size);
    note("malloc", size, 0, block);
    return block;
}

void *calloc(size_t count, size_t size) {
    void *block = __libc_calloc(count, size);
    note("calloc", count, size, block);
    return block;
}

#ifndef NO_REALLOC
void *realloc(void *old, size_t size) {
    void *block = __libc_realloc(old, size);
    note("realloc", (unsigned long)old, size, block);
    return block;
}
#endif

int posix_memalign(void **to, size_t alignment, size_t size) {
    *to = __libc_memalign(alignment, size);
    note("posix_memalign", alignment, size, *to);
    return *to ? 0 : ENOMEM;
}

void *aligned_alloc(size_t alignment, size_t size) {
    void *block = __libc_memalign(alignment, size);
    note("aligned_alloc", alignment, size, block);
    return block;
}

void *memalign(size_t alignment, size_t size) {
    void *block = __libc_memalign(alignment, size);
    note("memalign", alignment, size, block);
    return block;
}

void free(void *block) {
    note("free", (unsigned long)block, 0, NULL);
    __libc_free(block);
}
