/* Starts 5 threads that live at once, so that each gets a dynamic thread vector
 * of its own. Prints its own callocs of elements of 16 bytes: 7 of 160 bytes. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_barrier_t barrier;

static void *wait_for_all(void *unused) {
    pthread_barrier_wait(&barrier);
    return unused;
}

__attribute__((noinline)) static void start_threads(void) {
    pthread_t threads[5];
    pthread_barrier_init(&barrier, NULL, 6);
    for (int i = 0; i < 5; i++)
        pthread_create(&threads[i], NULL, wait_for_all, NULL);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 5; i++)
        pthread_join(threads[i], NULL);
}

__attribute__((noinline)) static void make_pairs(void) {
    for (int i = 0; i < 7; i++)
        free(calloc(10, 16));
}

int main(void) {
    start_threads();
    make_pairs();
    return 0;
}
