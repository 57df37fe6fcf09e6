/* Threads, their beginnings and ends: `threads CASE [COUNT]`. What the C library
 * allocates for a thread is under other functions: the counts are those of the
 * functions named. */
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <unistd.h>

extern "C" {
#include "completed.h"
}

#define ALONE extern "C" __attribute__((noipa))

static void *volatile shared_sink;
static __thread void *volatile sink;

static pthread_t start(void *(*body)(void *), void *argument) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 1 << 16);
    if (pthread_create(&thread, &attributes, body, argument) != 0)
        _exit(97);
    pthread_attr_destroy(&attributes);
    return thread;
}

/* `short N`: N threads, 20 at a time; each 3 blocks of 48 bytes in `brief`, the
 * last two freed at once, so that addresses go from thread to thread:
 * 3 N allocations, N leaked, 2 N temporary. */
ALONE void *brief(void *argument) {
    sink = malloc(48);
    for (int i = 0; i < 2; i++) {
        sink = malloc(48);
        free(sink);
    }
    return argument;
}

static int short_threads(int count) {
    for (int round = 0; round < count / 20; round++) {
        pthread_t threads[20];
        for (pthread_t &thread : threads)
            thread = start(brief, NULL);
        for (pthread_t thread : threads)
            pthread_join(thread, NULL);
    }
    return 0;
}

/* `together N`: N threads that all live when each makes 100 blocks of 32 bytes
 * in `gathered`, and still when each frees its own: 100 N allocations, none
 * leaked. */
static pthread_barrier_t gate;

ALONE void *gathered(void *argument) {
    void *blocks[100];
    pthread_barrier_wait(&gate);
    for (void *&block : blocks)
        block = malloc(32);
    pthread_barrier_wait(&gate);
    for (void *block : blocks)
        free(block);
    pthread_barrier_wait(&gate);
    return argument;
}

static int together(int count) {
    pthread_t *threads = new pthread_t[count];
    pthread_barrier_init(&gate, NULL, (unsigned)count);
    for (int i = 0; i < count; i++)
        threads[i] = start(gathered, NULL);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    delete[] threads;
    return 0;
}

/* `handover N`: 4 threads make N blocks of 24 bytes each in `produce`, each
 * freed by the next of the four through a ring of slots: 4 N allocations, all
 * freed, none temporary. */
static void *slots[4][64];

static void put(void **slot, void *block) {
    void *none = NULL;
    while (!__atomic_compare_exchange_n(slot, &none, block, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED)) {
        none = NULL;
        sched_yield();
    }
}

static void *take(void **slot) {
    void *block;
    while ((block = __atomic_exchange_n(slot, NULL, __ATOMIC_ACQUIRE)) == NULL)
        sched_yield();
    return block;
}

static int blocks_each;

/* Each makes 32 and takes 32 in turn, so that no thread waits for itself. */
ALONE void *produce(void *argument) {
    size_t mine = (size_t)argument, previous = (mine + 3) % 4;
    for (int round = 0; round < blocks_each / 32; round++) {
        for (int i = 0; i < 32; i++)
            put(&slots[mine][i], malloc(24));
        for (int i = 0; i < 32; i++)
            free(take(&slots[previous][i]));
    }
    return argument;
}

static int handover(int count) {
    pthread_t threads[4];
    blocks_each = count;
    for (size_t i = 0; i < 4; i++)
        threads[i] = start(produce, (void *)i);
    for (pthread_t thread : threads)
        pthread_join(thread, NULL);
    return 0;
}

/* `keys N`: a key's destructor frees the 56 bytes that `keyed` left it, makes
 * 64 in `key_destructor` and sets them again: it is called PTHREAD_DESTRUCTOR_
 * ITERATIONS (4) times. The first three times' 64 bytes are freed by the next,
 * the last are leaked: N of 56 in `keyed`, none leaked; 4 N of 64 in
 * `key_destructor`, N leaked. */
static pthread_key_t key;

ALONE void key_destructor(void *block) {
    free(block);
    pthread_setspecific(key, malloc(64));
}

ALONE void *keyed(void *argument) {
    pthread_setspecific(key, malloc(56));
    return argument;
}

static int keys(int count) {
    pthread_key_create(&key, key_destructor);
    for (int i = 0; i < count; i++)
        pthread_join(start(keyed, NULL), NULL);
    return 0;
}

/* `locals N`: a thread_local object's constructor makes 72 bytes, its
 * destructor frees them and makes 80 that leak: N of 72, none leaked; N of 80,
 * all leaked. */
ALONE void *local_constructor() {
    return malloc(72);
}

ALONE void local_destructor(void *block) {
    free(block);
    shared_sink = malloc(80);
}

struct Local {
    void *block = local_constructor();
    ~Local() { local_destructor(block); }
};

static thread_local Local local;

ALONE void *with_local(void *argument) {
    sink = local.block;
    return argument;
}

static int locals(int count) {
    for (int i = 0; i < count; i++)
        pthread_join(start(with_local, NULL), NULL);
    return 0;
}

/* `cancel N`: N threads that allocate and free without end, each cancelled at a
 * cancellation point; a cleanup handler frees the 200 bytes that it made before
 * and makes 208 in `cleanup` that leak: N of 200 in `prepare`, none leaked; N
 * of 208, all leaked; what `cancelled` completed. */
ALONE void *prepare() {
    return malloc(200);
}

ALONE void cleanup(void *block) {
    free(block);
    shared_sink = malloc(208);
}

ALONE void *cancelled(void *) {
    pthread_cleanup_push(cleanup, prepare());
    for (;;) {
        sink = malloc(16);
        COMPLETED(0);
        free(sink);
        pthread_testcancel();
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static int cancel(int count) {
    open_completed();
    for (int i = 0; i < count; i++) {
        uint64_t before = completed[0];
        pthread_t thread = start(cancelled, NULL);
        while (completed[0] < before + 10)
            sched_yield();
        pthread_cancel(thread);
        pthread_join(thread, NULL);
    }
    return 0;
}

/* `detached`: four detached threads in the middle of `steady` when main returns
 * with 5, after 1000 blocks of 88 bytes from `counted`. */
ALONE void *steady(void *argument) {
    for (;;) {
        sink = malloc(16);
        COMPLETED((size_t)argument);
        free(sink);
    }
    return argument;
}

ALONE void counted() {
    for (int i = 0; i < 1000; i++)
        shared_sink = malloc(88);
}

static int detached(int) {
    open_completed();
    for (size_t i = 0; i < 4; i++)
        pthread_detach(start(steady, (void *)i));
    for (size_t i = 0; i < 4; i++)
        while (completed[i * LINE] < 1000)
            usleep(100);
    counted();
    return 5;
}

static const struct {
    const char *name;
    int (*run)(int);
} cases[] = {
    {"short", short_threads}, {"together", together}, {"handover", handover},
    {"keys", keys},           {"locals", locals},     {"cancel", cancel},
    {"detached", detached},
};

int main(int argc, char **argv) {
    for (const auto &known : cases)
        if (argc > 1 && strcmp(argv[1], known.name) == 0)
            return known.run(argc > 2 ? atoi(argv[2]) : 0);
    return 98;
}
