/* Peak, leaked, temporary, lifetime: `metrics CASE`. No stdio, so totals are
 * those of the case alone. Each block comes from a function of its own. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALONE __attribute__((noipa))

static void *volatile sink;

/* A function that allocates and is named after what it is for. */
#define ALLOCATES(name)                                                        \
    ALONE static void *name(size_t bytes) {                                    \
        sink = malloc(bytes);                                                  \
        return sink;                                                           \
    }

ALLOCATES(first)
ALLOCATES(second)
ALLOCATES(third)
ALLOCATES(filler)

/* truth nothing: */
ALONE static void nothing(void) {}

/* 100 alone; later 60 and 40 together: the same peak, and the later one counts.
 * truth peak_tie: allocations=3 bytes=200 deallocations=3 temporary=2 peak=2 peak_bytes=100 */
ALONE static void peak_tie(void) {
    free(first(100));
    void *p = second(60);
    void *q = third(40);
    free(q);
    free(p);
}

/* Ten times 1000 bytes stay, then 20000 come and go: the peak is in between,
 * 30000; what comes after (another 5000) does not reach it. Leaked: 11 blocks.
 * truth peak_in_between: allocations=12 bytes=35000 deallocations=1 temporary=1 leaked=11 leaked_bytes=15000 peak=11 peak_bytes=30000 */
ALONE static void peak_in_between(void) {
    for (int i = 0; i < 10; i++)
        first(1000);
    free(second(20000));
    third(5000);
}

/* The peak of a reallocation: the old block goes before the new one comes, so
 * 100 -> 150 is never 250.
 * truth peak_of_realloc: allocations=2 bytes=250 deallocations=2 reallocations=1 temporary=2 peak=1 peak_bytes=150 */
ALONE static void peak_of_realloc(void) {
    void *p = first(100);
    sink = realloc(p, 150);
    free(sink);
}

/* first: freed at once, temporary. second: freed after third came, not.
 * third: freed after second was, but nothing was allocated in between.
 * truth temporary: allocations=3 bytes=24 deallocations=3 temporary=2 peak=2 peak_bytes=16 */
ALONE static void temporary(void) {
    free(first(8));
    void *p = second(8);
    void *q = third(8);
    free(p);
    free(q);
}

/* Freed by another thread: not temporary, whatever the order. The C library
 * allocates for the thread, so this case has no exact totals. */
ALONE static void *release(void *block) {
    free(block);
    return NULL;
}

ALONE static void other_thread(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, release, first(32));
    pthread_join(thread, NULL);
    free(second(32));
}

/* One block lives for 50 ms, one is freed at once, one lives to the end. The
 * fillers between make the recorder write timestamps, which come with events, not
 * at fixed times. */
ALONE static void fill(void) {
    for (int i = 0; i < 1000; i++)
        free(filler(16));
}

ALONE static void lifetime(void) {
    fill();
    void *p = first(100);
    fill();
    usleep(50000);
    fill();
    free(p);
    fill();
    free(second(100));
    third(100);
    fill();
    usleep(50000);
    fill();
}

/* A block, 200 ms, and its end: no other event. */
ALONE static void lone(void) {
    void *p = first(100);
    usleep(200000);
    free(p);
}

/* The only peak comes late: 100 ms after the start. */
ALONE static void late_peak(void) {
    fill();
    usleep(100000);
    fill();
    free(first(1000000));
    fill();
}

/* Nine of ten blocks are freed at once, one lives for 50 ms: the median is that of the nine, the
 * mean is more than 5 ms. */
ALONE static void one_long_lifetime(void) {
    fill();
    void *p = NULL;
    /* One call of `first`: all ten blocks are of one site. */
    for (volatile int i = 0; i < 10; i++) {
        void *q = first(100);
        if (i == 0)
            p = q;
        else
            free(q);
    }
    fill();
    usleep(50000);
    fill();
    free(p);
    fill();
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"nothing", nothing},
    {"peak_tie", peak_tie},
    {"peak_in_between", peak_in_between},
    {"peak_of_realloc", peak_of_realloc},
    {"temporary", temporary},
    {"other_thread", other_thread},
    {"lifetime", lifetime},
    {"one_long_lifetime", one_long_lifetime},
    {"lone", lone},
    {"late_peak", late_peak},
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
