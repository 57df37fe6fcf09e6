// The batches became larger than what qsort() sorts without memory of its own.
// BLAME flush
#include <stdlib.h>

#ifndef AFTER
#define BATCH 100
#else
#define BATCH 400
#endif

static int by_value(const void *a, const void *b) {
    return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

__attribute__((noinline)) static int flush(int *batch) {
    qsort(batch, BATCH, sizeof *batch, by_value); // MARK blame
    return batch[BATCH / 2];
}

int main(void) {
    int batch[BATCH];
    long sum = 0;
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < BATCH; i++)
            batch[i] = (i * 7919 + round) % 1009;
        sum += flush(batch);
    }
    return sum == 0;
}
