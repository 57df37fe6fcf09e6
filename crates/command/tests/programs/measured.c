/* A benchmark that allocates PER_ROW times a row: `measured ROWS PER_ROW`. Five
 * runs of a window `encode` of ROWS iterations, each of which leaks one block. Then
 * a window `left` that is never closed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

static void *volatile sink;

__attribute__((noinline)) static void row(int count) {
    for (int i = 0; i < count; i++) {
        sink = malloc(32);
        free(sink);
    }
}

__attribute__((noinline)) static void encode(int rows, int count) {
    for (int i = 0; i < rows; i++)
        row(count);
    sink = malloc(100);
}

int main(int argc, char **argv) {
    uint64_t (*window_open)(const char *, size_t, uint64_t, uint32_t);
    void (*window_close)(uint64_t, uint32_t);
    *(void **)&window_open = dlsym(RTLD_DEFAULT, "allotrope_window_open");
    *(void **)&window_close = dlsym(RTLD_DEFAULT, "allotrope_window_close");
    int rows = atoi(argv[1]), count = atoi(argv[2]);
    sink = malloc(100000); /* outside */
    for (int run = 0; run < 5; run++) {
        uint64_t window = window_open("encode", 6, rows, 0);
        encode(rows, count);
        window_close(window, 0);
    }
    window_open("left", 4, 0, 0);
    sink = malloc(7);
    return 0;
}
