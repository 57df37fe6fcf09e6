// Four threads allocate, reallocate and free at random and fork now and then, for so many
// seconds. Then nothing is live, and the program waits for the end of its input.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4
#define SLOTS 2000

static long seconds;

static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void steps(void **slots, uint64_t *state, int number) {
    for (int i = 0; i < number; i++) {
        void **slot = &slots[next(state) % SLOTS];
        // Up to 64 KiB, mostly small.
        size_t size = next(state) % (16u << next(state) % 13);
        switch (next(state) % 4) {
        case 0:
            free(*slot);
            *slot = NULL;
            break;
        case 1: {
            void *block = realloc(*slot, size + 1);
            if (block == NULL) abort();
            *slot = block;
            break;
        }
        default:
            free(*slot);
            *slot = next(state) % 2 ? malloc(size) : calloc(1, size);
        }
    }
}

static void *work(void *number) {
    uint64_t state = (uintptr_t)number * 77 + 5;
    void *slots[SLOTS] = {0};
    time_t end = time(NULL) + seconds;
    while (time(NULL) < end) {
        for (int i = 0; i < 50; i++) steps(slots, &state, 1000);
        if (next(&state) % 8 == 0) {
            pid_t child = fork();
            if (child == 0) {
                steps(slots, &state, 20000);
                _exit(0);
            }
            int status;
            if (child < 0 || waitpid(child, &status, 0) != child || status != 0) abort();
        }
    }
    for (int i = 0; i < SLOTS; i++) free(slots[i]);
    return NULL;
}

int main(int unused, char **arguments) {
    (void)unused;
    seconds = atol(arguments[1]);
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i) != 0) abort();
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    char byte;
    if (write(1, "done\n", 5) != 5) return 1;
    return read(0, &byte, 1) == 0 ? 0 : 1;
}
