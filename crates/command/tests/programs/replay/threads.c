// Three threads, one after another, allocate blocks of sizes that tell the thread and the
// block; the main thread frees them. Each thread frees every second block itself.
#include <pthread.h>
#include <stdlib.h>

#define THREADS 3
#define BLOCKS 20

static void *blocks[THREADS][BLOCKS];

static void *work(void *argument) {
    long thread = (long)argument;
    for (int i = 0; i < BLOCKS; i++)
        blocks[thread][i] = malloc(1000 * (thread + 1) + i);
    for (int i = 0; i < BLOCKS; i += 2)
        free(blocks[thread][i]);
    return NULL;
}

int main(void) {
    for (long thread = 0; thread < THREADS; thread++) {
        pthread_t id;
        if (pthread_create(&id, NULL, work, (void *)thread) != 0)
            return 1;
        pthread_join(id, NULL);
    }
    for (int thread = 0; thread < THREADS; thread++)
        for (int i = 1; i < BLOCKS; i += 2)
            free(blocks[thread][i]);
    return 0;
}
