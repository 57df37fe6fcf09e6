/* Has an allocator of its own linked into it, as the benchmark of an allocator's author does: it
 * exports `malloc` and `free`, whose entry points are jumps to inner functions and call one another.
 * Nothing here has a name that Allotrope knows, but those of C, POSIX and C++.
 *
 * Each case is one function, whose loop gives the counts; main runs all of them, and all blocks are
 * freed, except the child's.
 *
 * truth plain: 10 of 7 bytes.
 * truth zeroed: 20 of 15 bytes by calloc, which calls malloc.
 * truth grown: one of 100 bytes, which becomes one of 5000: two, 5100 bytes; realloc calls malloc
 * and free.
 * truth fresh: 3 of 12 bytes by realloc of null.
 * truth aligned: 5 of 100 and 2 of 48 bytes: 7, 596 bytes.
 * truth failed: one of 8 bytes.
 * truth library: 4 of 11 bytes, by strdup of the C library.
 * truth operators: 100 of 4 and 20 of 30 bytes: 120, 1000 bytes, by libstdc++, which calls malloc.
 * truth thread_work: 4 threads with 1000 of 16 bytes: 4000, 64000 bytes.
 * truth child_work: in a forked child, 30 of 13 bytes that stay.
 *
 * The allocator counts the calls that reach it from outside: the last line of the output has them,
 * from the begin of main on.
 */
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALONE __attribute__((noinline, noclone))

/* The allocator: the rest of a page of memory that is never full, with the size before each block.
 * Blocks are never used again. */
#define ENTRY extern "C" __attribute__((noinline, noclone))

static char area[1 << 26];
static std::atomic<size_t> used;
static std::atomic<long> allocations, reallocations, deallocations;
static __thread int depth;

ALONE static void *take(size_t size, size_t alignment) {
    if (size > sizeof area)
        return nullptr;
    if (depth == 0)
        allocations++;
    size_t bytes = size + 16 + alignment;
    size_t start = used.fetch_add(bytes);
    if (start + bytes > sizeof area)
        return nullptr;
    uintptr_t block = (uintptr_t)area + start + 16;
    block = (block + alignment - 1) / alignment * alignment;
    ((size_t *)block)[-1] = size;
    return (void *)block;
}

ALONE static void give(void *block) {
    if (block != nullptr && depth == 0)
        deallocations++;
}

ENTRY void *malloc(size_t size) { return take(size, 16); }
ENTRY void free(void *block) { give(block); }

ENTRY void *calloc(size_t count, size_t size) {
    if (size != 0 && count > SIZE_MAX / size)
        return nullptr;
    void *block = malloc(count * size);
    if (block != nullptr)
        memset(block, 0, count * size);
    return block;
}

ENTRY void *realloc(void *block, size_t size) {
    if (block == nullptr)
        return malloc(size);
    if (size <= sizeof area)
        reallocations++;
    depth++;
    void *bigger = malloc(size);
    if (bigger != nullptr) {
        size_t old = ((size_t *)block)[-1];
        memcpy(bigger, block, old < size ? old : size);
        free(block);
    }
    depth--;
    return bigger;
}

ENTRY void *aligned_alloc(size_t alignment, size_t size) { return take(size, alignment); }
ENTRY int posix_memalign(void **block, size_t alignment, size_t size) {
    *block = aligned_alloc(alignment, size);
    return *block == nullptr ? ENOMEM : 0;
}

/* The program. */
static void *volatile sink;

ALONE static void plain() {
    for (int i = 0; i < 10; i++) {
        sink = malloc(7);
        free(sink);
    }
    free(nullptr);
}

ALONE static void zeroed() {
    for (int i = 0; i < 20; i++) {
        char *block = (char *)calloc(3, 5);
        for (int at = 0; at < 15; at++)
            if (block[at] != 0)
                _exit(3);
        sink = block;
        free(sink);
    }
}

ALONE static void grown() {
    sink = malloc(100);
    memset(sink, 'x', 100);
    sink = realloc(sink, 5000);
    if (((char *)sink)[99] != 'x')
        _exit(3);
    free(sink);
}

ALONE static void fresh() {
    for (int i = 0; i < 3; i++) {
        sink = realloc(nullptr, 12);
        free(sink);
    }
}

ALONE static void aligned() {
    for (int i = 0; i < 5; i++) {
        void *block = nullptr;
        if (posix_memalign(&block, 64, 100) != 0 || (uintptr_t)block % 64 != 0)
            _exit(4);
        free(block);
    }
    for (int i = 0; i < 2; i++) {
        sink = aligned_alloc(32, 48);
        free(sink);
    }
}

ALONE static void failed() {
    sink = malloc((size_t)1 << 60);
    if (sink != nullptr)
        _exit(5);
    void *block = malloc(8);
    if (realloc(block, (size_t)1 << 60) != nullptr)
        _exit(6);
    free(block);
}

ALONE static void library() {
    for (int i = 0; i < 4; i++) {
        sink = strdup("0123456789");
        free(sink);
    }
}

ALONE static void operators() {
    for (int i = 0; i < 100; i++) {
        int *volatile number = new int;
        delete number;
    }
    for (int i = 0; i < 20; i++) {
        char *volatile text = new char[30];
        delete[] text;
    }
}

ALONE static void *thread_work(void *) {
    for (int i = 0; i < 1000; i++) {
        void *volatile block = malloc(16);
        free(block);
    }
    return nullptr;
}

ALONE static void child_work() {
    for (int i = 0; i < 30; i++)
        sink = malloc(13);
}

int main() {
    long before[3] = {allocations, reallocations, deallocations};
    plain();
    zeroed();
    grown();
    fresh();
    aligned();
    failed();
    library();
    operators();
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], nullptr, thread_work, nullptr);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], nullptr);
    pid_t child = fork();
    if (child == 0) {
        child_work();
        _exit(0);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0)
        return 7;
    long seen[3] = {allocations - before[0], reallocations - before[1], deallocations - before[2]};
    printf("allocations=%ld reallocations=%ld deallocations=%ld earlier=%ld\n", seen[0], seen[1],
           seen[2], before[0]);
    return 0;
}
