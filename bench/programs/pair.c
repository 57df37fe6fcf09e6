/* malloc(SIZE) and free in a loop, DEPTH frames from main to the loop:
 * `pair DEPTH SIZE PAIRS`. Prints the wall time of the loop in nanoseconds a
 * pair; start and end of the process are not in it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void *volatile sink;

static inline __attribute__((always_inline)) void pairs_here(size_t size, long pairs) {
    for (long i = 0; i < pairs; i++) {
        sink = malloc(size);
        free(sink);
    }
}

__attribute__((noipa)) static void loop(size_t size, long pairs) { pairs_here(size, pairs); }

/* Together with `loop` and `main`, `further` + 3 frames. */
__attribute__((noipa)) static void below(int further, size_t size, long pairs) {
    if (further > 0)
        below(further - 1, size, pairs);
    else
        loop(size, pairs);
    __asm__ volatile("");
}

static void run(int depth, size_t size, long pairs) {
    if (depth >= 3)
        below(depth - 3, size, pairs);
    else
        loop(size, pairs);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    const int depth = atoi(argv[1]);
    const size_t size = strtoul(argv[2], NULL, 10);
    const long pairs = atol(argv[3]);
    double start;
    if (depth == 1) {
        pairs_here(size, 1000); /* first uses are not what is measured */
        start = now();
        pairs_here(size, pairs);
    } else {
        run(depth, size, 1000);
        start = now();
        run(depth, size, pairs);
    }
    printf("%.3f\n", (now() - start) / (double)pairs);
    return 0;
}
