/* A heap of many live blocks: `live BLOCKS OPERATIONS`. Allocates BLOCKS blocks
 * of 16 to 143 bytes, then replaces OPERATIONS of them, each picked at random.
 * Prints the wall time of the replacing in nanoseconds a replacement. Nothing
 * is freed at the end. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static uint64_t state = 7;

static uint64_t step(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 33;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

__attribute__((noipa)) static void *block(void) { return malloc(16 + step() % 128); }

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    const size_t blocks = strtoul(argv[1], NULL, 10);
    const long operations = atol(argv[2]);
    void **live = mmap(NULL, blocks * sizeof *live, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (live == MAP_FAILED)
        return 1;
    for (size_t i = 0; i < blocks; i++)
        live[i] = block();
    const double start = now();
    for (long i = 0; i < operations; i++) {
        void **place = &live[step() % blocks];
        free(*place);
        *place = block();
    }
    printf("%.3f\n", (now() - start) / (double)operations);
    return 0;
}
