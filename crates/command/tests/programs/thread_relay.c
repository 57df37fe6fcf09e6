// For `allotrope cpu PID`: the main thread ends, and each of the others lives for some
// microseconds: it allocates 300 blocks, creates the next one and ends. After four seconds, the
// last one ends the process with status 7.
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static time_t end;

static void *hand_over(void *unused) {
    void *blocks[100];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++) {
            blocks[i] = malloc(i * 10); // MARK malloc
        }
        for (int i = 0; i < 100; i++) {
            free(blocks[i]);
        }
    }
    if (time(NULL) >= end) {
        _exit(7);
    }
    pthread_t next;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_create(&next, &attributes, hand_over, NULL);
    return unused;
}

int main(void) {
    end = time(NULL) + 4;
    hand_over(NULL);
    pthread_exit(NULL);
}
