// An allocator that forwards to the C library's. When it is loaded, it appends the environment of
// its process, as the kernel has it, to the file NOTES, and a line feed.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void __libc_free(void *);

__attribute__((constructor)) static void note(void) {
    static char bytes[1 << 16];
    int from = open("/proc/self/environ", O_RDONLY);
    ssize_t length = read(from, bytes, sizeof bytes - 1);
    int to = open(NOTES, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (length < 0) {
        abort();
    }
    bytes[length] = '\n';
    if (write(to, bytes, length + 1) != length + 1) {
        abort();
    }
    close(from);
    close(to);
}

void *malloc(size_t size) {
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size) {
    return __libc_realloc(block, size);
}

void free(void *block) {
    __libc_free(block);
}
