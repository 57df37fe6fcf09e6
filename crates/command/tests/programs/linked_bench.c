// The benchmark of `linked_pools.c`, which is linked into it. Each test is a function and
// allocates blocks of 200 to 328 bytes, which the small pool does not own. The first argument is
// the number of rounds; the second one names what else it does: `statistics` walks the
// allocator's lists for about half of the time.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OUT_OF_LINE __attribute__((noinline, noclone))
#define BLOCKS 256

int pool_statistics(void);

static void *blocks[BLOCKS];
static long operations;

static size_t size_of(int i) {
    return 200 + (size_t)(i & 127);
}

OUT_OF_LINE static void test_sequential_lifo(long rounds) {
    for (long round = 0; round < rounds; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = malloc(size_of(i)); // MARK lifo
        }
        for (int i = BLOCKS - 1; i >= 0; i--) {
            free(blocks[i]); // MARK lifo-free
        }
        operations += 2 * BLOCKS;
    }
}

OUT_OF_LINE static void test_sequential_fifo(long rounds) {
    for (long round = 0; round < rounds; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = malloc(size_of(i));
        }
        for (int i = 0; i < BLOCKS; i++) {
            free(blocks[i]);
        }
        operations += 2 * BLOCKS;
    }
}

OUT_OF_LINE static void test_random_free(long rounds) {
    for (long round = 0; round < rounds; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = malloc(size_of(i));
        }
        for (int i = BLOCKS - 1; i > 0; i--) {
            int other = rand() % (i + 1); // MARK rand
            void *block = blocks[i];
            blocks[i] = blocks[other];
            blocks[other] = block;
            free(blocks[i]); // MARK random-free
        }
        free(blocks[0]);
        operations += 2 * BLOCKS;
    }
}

OUT_OF_LINE static void test_interleaved(long rounds) {
    for (long round = 0; round < rounds; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            void *volatile block = malloc(size_of(i));
            free(block);
        }
        operations += 2 * BLOCKS;
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 1000;
    double start = now();
    test_sequential_lifo(rounds);
    test_sequential_fifo(rounds);
    test_random_free(rounds);
    test_interleaved(rounds);
    double seconds = now() - start;
    printf("Throughput: %.2f M ops/sec\n", (double)operations / seconds / 1e6);
    if (argc > 2 && strcmp(argv[2], "statistics") == 0) {
        void *small[4096];
        for (int i = 0; i < 4096; i++) {
            small[i] = malloc(16);
        }
        for (int i = 0; i < 4096; i++) {
            free(small[i]);
        }
        volatile long sum = 0;
        while (now() < start + 2 * seconds) {
            sum += pool_statistics();
        }
    }
    return 7;
}
