// For `allotrope cpu PID`: a thread creates the next one and ends, again and again, for two
// seconds. The last one allocates and frees for half a second of its CPU time and ends the
// process with status 7; before, it prints the CPU time of the process in microseconds.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long microseconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void burn(void) {
    long begin = microseconds(CLOCK_THREAD_CPUTIME_ID);
    while (microseconds(CLOCK_THREAD_CPUTIME_ID) - begin < 500000) {
        for (int i = 0; i < 10000; i++) {
            char *volatile block = malloc(40); // MARK malloc
            free(block);
        }
    }
}

static long end;

static void *hand_over(void *unused) {
    // Each one lives shorter than it takes to open its events after the list was read.
    usleep(100);
    if (microseconds(CLOCK_MONOTONIC) > end) {
        burn();
        printf("%ld\n", microseconds(CLOCK_PROCESS_CPUTIME_ID));
        fflush(stdout);
        exit(7);
    }
    pthread_t next;
    pthread_create(&next, NULL, hand_over, NULL);
    pthread_detach(next);
    return unused;
}

int main(void) {
    end = microseconds(CLOCK_MONOTONIC) + 2000000;
    pthread_t first;
    pthread_create(&first, NULL, hand_over, NULL);
    pthread_detach(first);
    for (;;) {
        pause();
    }
}
