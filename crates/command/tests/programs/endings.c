/* Ways for a process to end: `endings CASE [NUMBER]`. Before the end come 1000
 * blocks of 20 bytes from `before` and one of 30 from `last_allocation`, nothing
 * freed; no call lies between the last allocation and the end but the one that
 * ends the process. No stdio. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALONE __attribute__((noipa))

static void *volatile sink;
static volatile int *volatile nowhere;

ALONE static void before(void) {
    for (int i = 0; i < 1000; i++)
        sink = malloc(20);
}

ALONE static void last_allocation(void) {
    sink = malloc(30);
}

static void *exits(void *status) {
    last_allocation();
    exit(*(int *)status);
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    int number = argc > 2 ? atoi(argv[2]) : 0;
    before();
    if (strcmp(name, "thread") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, exits, &number);
        pthread_join(thread, NULL);
    }
    last_allocation();
    if (strcmp(name, "return") == 0)
        return number;
    if (strcmp(name, "exit") == 0)
        exit(number);
    if (strcmp(name, "_exit") == 0)
        _exit(number);
    if (strcmp(name, "exit_group") == 0)
        syscall(SYS_exit_group, number);
    if (strcmp(name, "quick_exit") == 0)
        quick_exit(number);
    if (strcmp(name, "kill") == 0) {
        /* nohup(1) leaves some ignored. */
        signal(number, SIG_DFL);
        kill(getpid(), number);
    }
    if (strcmp(name, "fault") == 0)
        *nowhere = 1;
    if (strcmp(name, "abort") == 0)
        abort();
    if (strcmp(name, "trap") == 0)
        __builtin_trap();
    pause();
    return 98;
}
