/* Threads whose every allocation is known: `threads CASE`. What the C library
 * allocates for a thread (its table of thread-local memory) is under other
 * functions: the counts below are those of the functions named. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALONE __attribute__((noipa))
#define THREADS 8

static void *volatile shared_sink;
static __thread void *volatile sink;

static void start(pthread_t *thread, void *(*body)(void *), void *argument) {
    if (pthread_create(thread, NULL, body, argument) != 0)
        _exit(97);
}

/* 20000 pairs of 32 bytes a thread, all temporary, and one block of 1000 bytes
 * that is never freed: 8 * 20001 = 160008 allocations,
 * 8 * (20000 * 32 + 1000) = 5128000 bytes, 8 leaked. */
ALONE static void *churn(void *argument) {
    for (int i = 0; i < 20000; i++) {
        sink = malloc(32);
        free(sink);
    }
    sink = malloc(1000);
    return argument;
}

static void exact(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        start(&threads[i], churn, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* 5000 blocks of 24 bytes from `produce`, each passed on under a lock and freed by
 * `consume`: none leaked, none temporary. malloc returns the same addresses again and
 * again, so the order of the two threads' events matters. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static void *handed;

ALONE static void *produce(void *argument) {
    for (int i = 0; i < 5000; i++) {
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
    for (int i = 0; i < 5000; i++) {
        pthread_mutex_lock(&lock);
        while (handed == NULL)
            pthread_cond_wait(&changed, &lock);
        void *block = handed;
        handed = NULL;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
        free(block);
    }
    return argument;
}

static void handover(void) {
    pthread_t producer, consumer;
    start(&producer, produce, NULL);
    start(&consumer, consume, NULL);
    pthread_join(producer, NULL);
    pthread_join(consumer, NULL);
}

/* 500 threads, 25 at a time; each allocates 3 blocks of 48 bytes and frees 2,
 * the last of them at once: 1500 allocations, 72000 bytes, 500 leaked blocks
 * of 24000 bytes, 1000 temporary (the second and third: the second is freed
 * right after it came, the third too). */
ALONE static void *brief(void *argument) {
    sink = malloc(48);
    sink = malloc(48);
    free(sink);
    sink = malloc(48);
    free(sink);
    return argument;
}

static void many(void) {
    for (int round = 0; round < 20; round++) {
        pthread_t threads[25];
        for (int i = 0; i < 25; i++)
            start(&threads[i], brief, NULL);
        for (int i = 0; i < 25; i++)
            pthread_join(threads[i], NULL);
    }
}

/* Two threads with names of their own, one block of 72 bytes each, which live for a
 * second. */
ALONE static void *named(void *name) {
    pthread_setname_np(pthread_self(), name);
    sink = malloc(72);
    usleep(1000000);
    return NULL;
}

static void names(void) {
    pthread_t one, two;
    start(&one, named, "spinner-one");
    start(&two, named, "spinner-two");
    pthread_join(one, NULL);
    pthread_join(two, NULL);
}

/* A key's destructor runs when the thread is all but gone: it frees the 56
 * bytes that `keyed` left it and allocates 64 more, which leak. 4 threads. */
static pthread_key_t key;

ALONE static void destructor(void *block) {
    free(block);
    shared_sink = malloc(64);
}

ALONE static void *keyed(void *argument) {
    pthread_setspecific(key, malloc(56));
    return argument;
}

static void keys(void) {
    pthread_t threads[4];
    pthread_key_create(&key, destructor);
    for (int i = 0; i < 4; i++)
        start(&threads[i], keyed, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

/* Detached threads that are in the middle of `churn` when the process ends:
 * 1000 blocks of 88 bytes from the main thread, which are all known. */
ALONE static void *forever(void *argument) {
    for (;;) {
        sink = malloc(16);
        free(sink);
    }
    return argument;
}

ALONE static void counted(void) {
    for (int i = 0; i < 1000; i++)
        shared_sink = malloc(88);
}

static void cut(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        start(&threads[i], forever, NULL);
    usleep(20000);
    counted();
    _exit(0);
}

/* A thread with the smallest stack that there may be: 96 bytes. */
ALONE static void *narrow(void *argument) {
    sink = malloc(96);
    return argument;
}

static void small_stack(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 16384);
    if (pthread_create(&thread, &attributes, narrow, NULL) != 0)
        _exit(97);
    pthread_join(thread, NULL);
}

static atomic_int begun;

static void await_begin(void) {
    while (!atomic_load(&begun))
        sched_yield();
}

/* The first thread has long been busy when a second one, which existed all the
 * time, makes its first allocation. `first` makes 40000 pairs of 32 bytes, then
 * allocates and frees 50 blocks of 1000 bytes, and only when that is done does
 * `second` allocate 50 such blocks, which stay. So no more than 50 of the 100
 * are ever live at once; at the peak (the later of two equal ones) they are
 * those of `second`. */
#define LATE 50

ALONE static void *second(void *argument) {
    await_begin();
    for (int i = 0; i < LATE; i++)
        sink = malloc(1000);
    usleep(20000);
    return argument;
}

ALONE static void first(void) {
    void *blocks[LATE];
    for (int i = 0; i < 40000; i++) {
        sink = malloc(32);
        free(sink);
    }
    for (int i = 0; i < LATE; i++)
        blocks[i] = malloc(1000);
    for (int i = 0; i < LATE; i++)
        free(blocks[i]);
    atomic_store(&begun, 1);
}

static void late(void) {
    pthread_t thread;
    start(&thread, second, NULL);
    first();
    pthread_join(thread, NULL);
}

/* A second thread joins a busy first one in the middle of its work: from then
 * on each frees the blocks of the other. 40000 blocks of 40 bytes from `busy`,
 * 20000 from `joining`, all freed. */
static _Atomic(void *) exchanged;

ALONE static void *joining(void *argument) {
    await_begin();
    for (int i = 0; i < 20000; i++)
        free(atomic_exchange(&exchanged, malloc(40)));
    return argument;
}

ALONE static void busy(void) {
    for (int i = 0; i < 40000; i++) {
        if (i == 20000)
            atomic_store(&begun, 1);
        free(atomic_exchange(&exchanged, malloc(40)));
    }
}

static void joined(void) {
    pthread_t thread;
    start(&thread, joining, NULL);
    busy();
    pthread_join(thread, NULL);
    free(exchanged);
}

/* As `late`, in a child: an image of its own, which begins with one thread. */
static void late_child(void) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        late();
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child || status != 0)
        _exit(97);
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"exact", exact}, {"handover", handover}, {"many", many},
    {"names", names}, {"keys", keys},         {"cut", cut},
    {"small_stack", small_stack}, {"late", late}, {"joined", joined},
    {"late_child", late_child},
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
