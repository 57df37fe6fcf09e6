/* Programs whose calls are counted: `counts CASE`. No stdio; a case whose count
 * is not fixed writes it to stdout as a decimal number. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALONE __attribute__((noipa))

static void *volatile sink;

ALONE static void pairs(long count, size_t size) {
    for (long i = 0; i < count; i++) {
        void *volatile block = malloc(size);
        free(block);
    }
}

/* What happens before and after every case. */
static void nothing(void) {
}

/* A signal handler that allocates 10 bytes and frees them interrupts 3 million
 * pairs of 100 bytes. Writes how often the handler ran. Only for an allocator that
 * may be called in a handler. */
static volatile sig_atomic_t handled;

ALONE static void handler(int signal) {
    void *block = malloc(10);
    free(block);
    handled++;
}

static void signals(void) {
    struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    signal(SIGALRM, handler);
    setitimer(ITIMER_REAL, &often, NULL);
    pairs(3000000, 100);
    setitimer(ITIMER_REAL, &never, NULL);
    char digits[20];
    size_t at = sizeof digits;
    for (long left = handled; at == sizeof digits || left > 0; left /= 10)
        digits[--at] = '0' + left % 10;
    if (write(1, digits + at, sizeof digits - at) < 0)
        _exit(97);
}

/* 12345 pairs of 20 bytes and a block of 7, then SIGKILL. */
static void killed(void) {
    pairs(12345, 20);
    sink = malloc(7);
    kill(getpid(), SIGKILL);
}

/* 40 threads, one after the other: the nth makes n pairs of 16 bytes. */
static void *nth(void *argument) {
    pairs((long)argument, 16);
    return NULL;
}

static void reuse(void) {
    for (long n = 1; n <= 40; n++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, nth, (void *)n) != 0)
            _exit(97);
        pthread_join(thread, NULL);
    }
}

/* Two threads make 200000 pairs of 24 bytes each, while the main thread forks
 * 20 children, which make 3 pairs of 48 bytes and in a thread 5 of 16. */
static void *busy(void *argument) {
    pairs(200000, 24);
    return argument;
}

static void forks(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, busy, NULL) != 0)
            _exit(97);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            pairs(3, 48);
            pthread_t thread;
            if (pthread_create(&thread, NULL, nth, (void *)5) != 0)
                _exit(97);
            pthread_join(thread, NULL);
            _exit(0);
        }
        int status = 0;
        if (waitpid(child, &status, 0) != child || status != 0)
            _exit(96);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

/* 100 pairs of 8 bytes, then another image, which does the same again. */
static void again(void) {
    pairs(100, 8);
    execl("/proc/self/exe", "counts", "once", NULL);
    _exit(97);
}

static void once(void) {
    pairs(100, 8);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"nothing", nothing}, {"signals", signals}, {"killed", killed}, {"reuse", reuse},
    {"forks", forks},     {"again", again},     {"once", once},
};

int main(int argc, char **argv) {
    for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    }
    return 98;
}
