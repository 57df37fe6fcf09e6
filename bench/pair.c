/* malloc(64) and free, 20 frames below main: `pair PAIRS`. Prints the wall
 * time of the loop in nanoseconds a pair; start and end of the process are not
 * in it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void *volatile sink;

__attribute__((noipa)) static void loop(long pairs) {
    for (long i = 0; i < pairs; i++) {
        sink = malloc(64);
        free(sink);
    }
}

/* Together with `loop` and `main`, `depth` frames between the two. */
__attribute__((noipa)) static void below(int depth, long pairs) {
    if (depth > 0)
        below(depth - 1, pairs);
    else
        loop(pairs);
    __asm__ volatile("");
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(int argc, char **argv) {
    long pairs = argc > 1 ? atol(argv[1]) : 20000000;
    below(0, 1000); /* first uses are not what is measured */
    double start = now();
    below(17, pairs); /* 18 frames, with loop and main 20 */
    printf("%.3f\n", (now() - start) / (double)pairs);
    return 0;
}
