/* Blocks whose every deallocation is known: `freeing CASE`. Each case states who allocates
 * how many blocks, and which function frees how many of them. */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALONE __attribute__((noipa))

static void *volatile sink;

ALONE static void *make(size_t size) {
    void *block = malloc(size);
    sink = block;
    return block;
}

/* What follows each call keeps it from becoming a jump, so that the function is in the
 * stack. */
ALONE static void drop_first(void *block) {
    free(block);
    sink = NULL;
}

ALONE static void drop_second(void *block) {
    free(block);
    sink = NULL;
}

/* `make`: 33 blocks of 10 bytes. `drop_first` frees 10 of them, `drop_second` 20; 3 stay. */
static void sites(void) {
    for (int i = 0; i < 10; i++)
        drop_first(make(10));
    for (int i = 0; i < 20; i++)
        drop_second(make(10));
    for (int i = 0; i < 3; i++)
        make(10);
}

/* 1000 blocks of 24 bytes from `produce`, in a thread of its own. Another thread
 * frees every fifth in `drop_first` (200) and the others in `drop_second` (800). */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static void *handed;

ALONE static void *produce(void *argument) {
    for (int i = 0; i < 1000; i++) {
        void *block = malloc(24);
        pthread_mutex_lock(&lock);
        while (handed != NULL)
            pthread_cond_wait(&changed, &lock);
        handed = block;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
    }
    return argument;
}

ALONE static void *consume(void *argument) {
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&lock);
        while (handed == NULL)
            pthread_cond_wait(&changed, &lock);
        void *block = handed;
        handed = NULL;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
        if (i % 5 == 0)
            drop_first(block);
        else
            drop_second(block);
    }
    return argument;
}

static void queue(void) {
    pthread_t producer, consumer;
    if (pthread_create(&producer, NULL, produce, NULL) != 0 ||
        pthread_create(&consumer, NULL, consume, NULL) != 0)
        _exit(97);
    pthread_join(producer, NULL);
    pthread_join(consumer, NULL);
}

ALONE static void *enlarge(void *block) {
    block = realloc(block, 4096);
    sink = block;
    return block;
}

ALONE static void empty(void *block) {
    sink = realloc(block, 0);
}

ALONE static void fail(void *block) {
    volatile size_t most = PTRDIFF_MAX;
    if (realloc(block, most) != NULL)
        _exit(97);
    sink = NULL;
}

/* `make`: 12 blocks. `enlarge` replaces 5 of them by realloc, `empty` frees 4 by realloc
 * to 0 bytes, and `drop_second` frees 3, whose realloc in `fail` failed. `enlarge`: 5
 * blocks, which `drop_first` frees. */
static void moved(void) {
    for (int i = 0; i < 5; i++)
        drop_first(enlarge(make(16)));
    for (int i = 0; i < 4; i++)
        empty(make(16));
    for (int i = 0; i < 3; i++) {
        void *block = make(16);
        fail(block);
        drop_second(block);
    }
}

/* `make`: 50 blocks in a thread with the smallest stack, which `drop_first` frees there. */
ALONE static void *in_thread(void *argument) {
    for (int i = 0; i < 50; i++)
        drop_first(make(32));
    return argument;
}

static void small_stack(void) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
    if (pthread_create(&thread, &attributes, in_thread, NULL) != 0)
        _exit(97);
    pthread_join(thread, NULL);
}

/* The parent: 6 blocks of `make`, which `drop_second` frees after the child's end. The
 * child frees its copies of them in `drop_first`, then 7 blocks of `make` of its own in
 * `drop_second`. */
static void forked(void) {
    void *blocks[6];
    for (int i = 0; i < 6; i++)
        blocks[i] = make(40);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 6; i++)
            drop_first(blocks[i]);
        for (int i = 0; i < 7; i++)
            drop_second(make(48));
        _exit(0);
    }
    waitpid(child, NULL, 0);
    for (int i = 0; i < 6; i++)
        drop_second(blocks[i]);
}

/* `make`: 2100 blocks. A signal is raised 100 times; its handler frees a block in
 * `drop_first`, while `drop_second` frees the 2000 others. */
static void handler(int number) {
    (void)number;
    drop_first(make(56));
}

static void signals(void) {
    signal(SIGUSR1, handler);
    for (int i = 0; i < 2000; i++) {
        drop_second(make(56));
        if (i % 20 == 0)
            raise(SIGUSR1);
    }
}

/* `make`: 1001 blocks of 8 bytes; each of 1000 is freed at a stack of its own: the bits of
 * the number are calls of `zero` or `one`. The last is live. */
ALONE static void one(void *block, unsigned bits);
ALONE static void zero(void *block, unsigned bits) {
    if (bits <= 1)
        drop_first(block);
    else if (bits & 1)
        one(block, bits >> 1);
    else
        zero(block, bits >> 1);
    sink = NULL;
}
ALONE static void one(void *block, unsigned bits) {
    if (bits <= 1)
        drop_first(block);
    else if (bits & 1)
        one(block, bits >> 1);
    else
        zero(block, bits >> 1);
    sink = NULL;
}

static void many(void) {
    for (unsigned i = 0; i < 1000; i++)
        zero(make(8), 1024 + i);
    make(8);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"sites", sites},   {"queue", queue},     {"moved", moved}, {"small_stack", small_stack},
    {"forked", forked}, {"signals", signals}, {"many", many},
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
