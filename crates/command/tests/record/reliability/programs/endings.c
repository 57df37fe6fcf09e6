/* Ways for a process to end: `endings WAY [busy]`. Before the end come 1000
 * blocks of 20 bytes from `before` and one of 30 from `last_allocation`, none freed;
 * no call lies between the last allocation and the end but the one that ends
 * the process. With `busy`, three threads allocate and free in `steady`
 * meanwhile and count what was completed (`completed.h`), at least 1000 each
 * before the end comes. No stdio. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "completed.h"

#define ALONE __attribute__((noipa))
#define THREADS 3

static void *volatile sink;
static __thread void *volatile own;
static volatile int *volatile nowhere;

ALONE static void before(void) {
    for (int i = 0; i < 1000; i++)
        sink = malloc(20);
}

ALONE static void last_allocation(void) {
    sink = malloc(30);
}

ALONE static void *steady(void *argument) {
    size_t thread = (size_t)argument;
    for (;;) {
        own = malloc(40);
        COMPLETED(thread);
        free(own);
    }
    return argument;
}

static void start_busy(void) {
    open_completed();
    for (size_t i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, steady, (void *)i) != 0)
            _exit(97);
    }
    for (size_t i = 0; i < THREADS; i++)
        while (completed[i * LINE] < 1000)
            usleep(100);
}

/* What runs after `exec`: 5 blocks of 50 bytes, then status 5. */
ALONE static void after_exec(void) {
    for (int i = 0; i < 5; i++)
        sink = malloc(50);
}

/* `leave`: main's thread is gone when the last allocation comes. */
static pthread_t main_thread;

static void *successor(void *argument) {
    pthread_join(main_thread, NULL);
    last_allocation();
    _exit(5);
    return argument;
}

static void leave(void) {
    pthread_t thread;
    main_thread = pthread_self();
    if (pthread_create(&thread, NULL, successor, NULL) != 0)
        _exit(97);
    pthread_exit(NULL);
}

/* `oom`: into the memory cgroup whose `cgroup.procs` is named, then blocks of
 * 1 MiB, all touched, until the kernel ends it. */
ALONE static void hungry(void) {
    for (;;) {
        char *block = malloc(1 << 20);
        if (block == NULL)
            _exit(97);
        COMPLETED(0);
        memset(block, 1, 1 << 20);
    }
}

static void out_of_memory(const char *group) {
    int file = open(group, O_WRONLY | O_CLOEXEC);
    if (file < 0 || write(file, "0", 1) != 1)
        _exit(96);
    open_completed();
    last_allocation();
    hungry();
}

static void say_ready(void) {
    char text[] = "ready 0000000\n";
    int pid = getpid();
    for (char *digit = text + 12; pid != 0; digit--, pid /= 10)
        *digit = (char)('0' + pid % 10);
    if (write(1, text, sizeof text - 1) < 0)
        _exit(97);
}

int main(int argc, char **argv) {
    const char *way = argc > 1 ? argv[1] : "";
    if (strcmp(way, "after") == 0) {
        after_exec();
        return 5;
    }
    before();
    if (strcmp(way, "oom") == 0)
        out_of_memory(argv[2]);
    if (argc > 2)
        start_busy();
    if (strcmp(way, "leave") == 0)
        leave();
    last_allocation();
    if (strcmp(way, "kill") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(way, "segv") == 0)
        *nowhere = 1;
    if (strcmp(way, "abort") == 0)
        abort();
    if (strcmp(way, "_exit") == 0)
        _exit(5);
    if (strcmp(way, "exit") == 0)
        exit(5);
    if (strcmp(way, "group") == 0)
        kill(0, SIGTERM);
    if (strcmp(way, "exec") == 0)
        execl("/proc/self/exe", argv[0], "after", NULL);
    /* `outside`: somebody else ends it. */
    say_ready();
    for (;;)
        pause();
}
