/* Has allocators of its own that `record --allocator` names: pools of nginx's shape, whose blocks are
 * freed with their pool, and an allocator of objects. With -DLIBRARY: only these, for a shared library;
 * with -DPROGRAM: only the rest.
 *
 * Each case is one function. Blocks of pools (P), objects (O), and blocks of malloc that no call of the
 * two made (M):
 *
 * truth served: 3 times a pool of 1024 bytes, 40 blocks of 50, one of 5000, one of 80 (zeroed) and one
 *   of 6000 that is freed, and a block of 33 that a handler frees when the pool is destroyed:
 *   P 129, 39,240 bytes; M 6, 3,171 bytes. Nothing stays.
 * truth kept: P 7 of 20 bytes, which stay; M one of 256 bytes, which stays.
 * truth cleared: a pool that is reset 4 times with 5 blocks of 10 bytes, and destroyed: P 20, 200 bytes;
 *   M one of 256 bytes. Nothing stays.
 * truth objects: 30 of 3*8 bytes, and 20 of 300 bytes, of which 4 become 400 bytes, and 5 of 40 bytes by
 *   a function of 9 arguments: O 59, 8,520 bytes. Nothing stays.
 * truth threaded: 4 threads with 100 pools of 256 bytes with 20 blocks of 12 bytes: P 8000, 96,000 bytes;
 *   M 400, 102,400 bytes. Nothing stays.
 * truth many, with an argument: a pool of 32 MiB with 1,100,000 blocks of 8 bytes, and nothing else: P
 *   1,100,000. Nothing stays.
 * truth child: a forked child destroys a pool with 9 blocks of 16 bytes, which it inherited, and leaves
 *   one with 2 blocks of 17 bytes: P 2, 34 bytes, which stay. In the parent 9 of 16 bytes stay.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALONE __attribute__((noinline, noclone))

struct pool;
struct pool *pool_create(size_t size);
void *pool_alloc(struct pool *pool, size_t size);
void *pool_zalloc(struct pool *pool, size_t size);
int pool_free(struct pool *pool, void *block);
void pool_at_end(struct pool *pool, void *argument);
void pool_reset(struct pool *pool);
void pool_destroy(struct pool *pool);
void *object_new(size_t count, size_t size);
void *object_resize(void *object, size_t size);
void object_free(void *object);
void *object_traced(size_t size, int a, int b, int c, int d, int e, int f, int g, int h);

#ifndef PROGRAM
struct chunk {
    struct chunk *next;
    char *at, *end;
};
struct large {
    struct large *next;
    void *block;
};
struct pool {
    struct chunk first;
    struct chunk *chunks;
    struct large *large;
    void *at_end;
    size_t size;
};

ALONE struct pool *pool_create(size_t size) {
    struct pool *pool = malloc(size);
    pool->first.next = NULL;
    pool->first.at = (char *)(pool + 1);
    pool->first.end = (char *)pool + size;
    pool->chunks = &pool->first;
    pool->large = NULL;
    pool->at_end = NULL;
    pool->size = size;
    return pool;
}

ALONE static void *from_chunk(struct pool *pool, size_t size) {
    struct chunk *chunk = pool->chunks;
    if ((size_t)(chunk->end - chunk->at) < size) {
        chunk = malloc(pool->size);
        chunk->next = pool->chunks;
        chunk->at = (char *)(chunk + 1);
        chunk->end = (char *)chunk + pool->size;
        pool->chunks = chunk;
    }
    void *block = chunk->at;
    chunk->at += size;
    return block;
}

ALONE void *pool_alloc(struct pool *pool, size_t size) {
    if (size < pool->size / 2)
        return from_chunk(pool, size);
    struct large *large = from_chunk(pool, sizeof *large);
    large->next = pool->large;
    large->block = malloc(size);
    pool->large = large;
    return large->block;
}

ALONE void *pool_zalloc(struct pool *pool, size_t size) {
    void *block = pool_alloc(pool, size);
    return memset(block, 0, size);
}

ALONE int pool_free(struct pool *pool, void *block) {
    for (struct large *large = pool->large; large != NULL; large = large->next) {
        if (large->block == block) {
            free(block);
            large->block = NULL;
            return 0;
        }
    }
    return -5;
}

ALONE void pool_at_end(struct pool *pool, void *argument) { pool->at_end = argument; }

ALONE void pool_reset(struct pool *pool) {
    for (struct large *large = pool->large; large != NULL; large = large->next)
        free(large->block);
    while (pool->chunks != &pool->first) {
        struct chunk *chunk = pool->chunks;
        pool->chunks = chunk->next;
        free(chunk);
    }
    pool->large = NULL;
    pool->first.at = (char *)(pool + 1);
}

ALONE void pool_destroy(struct pool *pool) {
    free(pool->at_end);
    pool_reset(pool);
    free(pool);
}

/* Objects of less than 128 bytes come from a table, others from malloc. The size is before each. */
static char table[1 << 12];
static size_t used;

ALONE void *object_new(size_t count, size_t size) {
    size_t bytes = count * size + 16;
    char *block;
    if (bytes < 128 && used + bytes <= sizeof table) {
        block = table + used;
        used += (bytes + 15) / 16 * 16;
    } else {
        block = malloc(bytes);
    }
    *(size_t *)block = count * size;
    return block + 16;
}

ALONE static int is_in_table(char *block) { return block >= table && block < table + sizeof table; }

ALONE void object_free(void *object) {
    char *block = (char *)object - 16;
    if (object != NULL && !is_in_table(block))
        free(block);
}

ALONE void *object_resize(void *object, size_t size) {
    char *block = (char *)object - 16;
    if (is_in_table(block)) {
        void *other = object_new(1, size);
        memcpy(other, object, *(size_t *)block);
        return other;
    }
    block = realloc(block, size + 16);
    *(size_t *)block = size;
    return block + 16;
}

/* Arguments behind the sixth are on the stack. */
ALONE void *object_traced(size_t size, int a, int b, int c, int d, int e, int f, int g, int h) {
    if (a != 2 || b != 3 || c != 4 || d != 5 || e != 6 || f != 7 || g != 8 || h != 9)
        _exit(4);
    return object_new(1, size);
}
#endif

#ifndef LIBRARY
static void *volatile sink;

/* A block of malloc that no pool knows. No jump to malloc: the report has to show this function. */
ALONE static void *note(void) {
    sink = malloc(33);
    return sink;
}

ALONE static void served(void) {
    for (int request = 0; request < 3; request++) {
        struct pool *pool = pool_create(1024);
        pool_at_end(pool, note());
        for (int i = 0; i < 40; i++)
            sink = pool_alloc(pool, 50);
        sink = pool_alloc(pool, 5000);
        sink = pool_zalloc(pool, 80);
        sink = pool_alloc(pool, 6000);
        if (pool_free(pool, sink) != 0)
            _exit(3);
        pool_destroy(pool);
    }
}

ALONE static void kept(void) {
    static struct pool *pool;
    pool = pool_create(256);
    for (int i = 0; i < 7; i++)
        sink = pool_alloc(pool, 20);
}

ALONE static void cleared(void) {
    struct pool *pool = pool_create(256);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 5; i++)
            sink = pool_alloc(pool, 10);
        pool_reset(pool);
    }
    pool_destroy(pool);
}

ALONE static void objects(void) {
    for (int i = 0; i < 30; i++) {
        void *object = object_new(3, 8);
        object_free(object);
    }
    object_free(NULL);
    for (int i = 0; i < 5; i++)
        object_free(object_traced(40, 2, 3, 4, 5, 6, 7, 8, 9));
    for (int i = 0; i < 20; i++) {
        void *object = object_new(1, 300);
        if (i < 4)
            object = object_resize(object, 400);
        object_free(object);
    }
}

ALONE static void *threaded(void *_) {
    for (int round = 0; round < 100; round++) {
        struct pool *pool = pool_create(256);
        for (int i = 0; i < 20; i++)
            sink = pool_alloc(pool, 12);
        pool_destroy(pool);
    }
    return NULL;
}

ALONE static struct pool *inherited(void) {
    struct pool *pool = pool_create(256);
    for (int i = 0; i < 9; i++)
        sink = pool_alloc(pool, 16);
    return pool;
}

ALONE static void child(struct pool *pool) {
    pool_destroy(pool);
    pool = pool_create(256);
    for (int i = 0; i < 2; i++)
        sink = pool_alloc(pool, 17);
}

ALONE static void many(void) {
    struct pool *pool = pool_create(32 << 20);
    for (int i = 0; i < 1100000; i++)
        sink = pool_alloc(pool, 8);
    pool_destroy(pool);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        many();
        return 0;
    }
    served();
    kept();
    cleared();
    objects();
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, threaded, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    struct pool *pool = inherited();
    pid_t other = fork();
    if (other == 0) {
        child(pool);
        _exit(0);
    }
    int status = 0;
    return waitpid(other, &status, 0) != other || status != 0;
}
#endif
