/* `cancelled N`: N threads, one after the other, that allocate and free without
 * end. Each is cancelled asynchronously, wherever it is, in the middle of the
 * allocator or of the recorder too. Blocks of one size that come and go stay in
 * glibc's cache of the thread, without a lock that a cancelled thread would never
 * release; the first of them is made before. A cleanup handler frees the 200 bytes
 * that the thread made first and makes 208 in `cleanup` that leak: N of 200 in
 * `prepare`, none leaked; N of 208, all leaked; in `anywhere` N and what was
 * completed, one more for each thread that was cancelled before it could count, and
 * its block leaked. In C, because gcc's C++ ends a program that is unwound from an
 * instruction that is not a call. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>

#include "completed.h"

#define ALONE __attribute__((noipa))

static void *volatile shared_sink;
static __thread void *volatile sink;

ALONE static void *prepare(void) {
    return malloc(200);
}

ALONE static void cleanup(void *block) {
    free(block);
    shared_sink = malloc(208);
}

ALONE static void *anywhere(void *argument) {
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    void *block = prepare();
    sink = malloc(16);
    free(sink);
    pthread_cleanup_push(cleanup, block);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &before);
    for (;;) {
        sink = malloc(16);
        COMPLETED(0);
        free(sink);
    }
    pthread_cleanup_pop(0);
    return argument;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 0;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 1 << 16);
    open_completed();
    for (int i = 0; i < count; i++) {
        uint64_t before = completed[0];
        pthread_t thread;
        if (pthread_create(&thread, &attributes, anywhere, NULL) != 0)
            _exit(97);
        while (completed[0] < before + 10)
            sched_yield();
        for (volatile int moment = 0; moment < i * 37 % 1000; moment++)
            ;
        pthread_cancel(thread);
        pthread_join(thread, NULL);
    }
    return 0;
}
