/* An allocator that is linked into the program. Each case is one function, whose loop
 * gives the counts; main runs all of them, and all blocks are freed, except the child's.
 * An allocation that fails makes no block; what a reallocation returns is one.
 *
 * truth plain: 10 of 7 bytes.
 * truth zeroed: 20 of 15 bytes by calloc.
 * truth grown: one of 100 bytes, which becomes one of 5000: two, 5100 bytes.
 * truth fresh: 3 of 12 bytes by realloc of null.
 * truth aligned: 5 of 100, 2 of 48, 3 of 64 and one of 10 bytes: 11, 798 bytes.
 * truth failed: one of 8 bytes.
 * truth library: 4 of 11 bytes, by strdup of the C library.
 * truth operators: 100 of 4, 20 of 30 and 50 of 64 bytes: 170, 4200 bytes.
 * truth after_exception: 6 of 9 bytes.
 * truth thread_work: 4 threads with 1000 of 16 bytes: 4000, 64000 bytes.
 * truth child_work: in a forked child, 30 of 13 bytes that stay.
 * With -DJEMALLOC:
 * truth sized: 30 of 24 bytes.
 * truth resized: one of 100 bytes, which becomes one of 5000: two, 5100 bytes.
 * truth in_place: one of 100 bytes, which becomes one of 110 where it is, and then not
 * one of 100000: two, 210 bytes.
 * truth aligned_to_page: 5 of 48 bytes.
 */
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <new>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALONE __attribute__((noinline, noclone))

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
    sink = realloc(sink, 5000);
    free(sink);
}

ALONE static void fresh() {
    for (int i = 0; i < 3; i++) {
        sink = realloc(nullptr, 12);
        free(sink);
    }
}

ALONE static void check(void *block, size_t alignment) {
    if (block == nullptr || (uintptr_t)block % alignment != 0)
        _exit(4);
    free(block);
}

ALONE static void aligned() {
    for (int i = 0; i < 5; i++) {
        void *block = nullptr;
        if (posix_memalign(&block, 64, 100) != 0)
            _exit(5);
        check(block, 64);
    }
    void *none = nullptr;
    if (posix_memalign(&none, 3, 100) == 0)
        _exit(6);
    for (int i = 0; i < 2; i++)
        check(memalign(128, 48), 128);
    for (int i = 0; i < 3; i++)
        check(aligned_alloc(32, 64), 32);
    check(valloc(10), 4096);
}

ALONE static void failed() {
    volatile size_t huge = SIZE_MAX / 2;
    void *block = malloc(8);
    if (malloc(huge) || calloc(huge, 4) || realloc(block, huge))
        _exit(7);
    sink = block;
    free(sink);
}

ALONE static void library() {
    for (int i = 0; i < 4; i++) {
        sink = strdup("0123456789");
        free(sink);
    }
}

struct alignas(64) Aligned {
    char bytes[64];
};

ALONE static void operators() {
    for (int i = 0; i < 100; i++) {
        int *block = new int;
        sink = block;
        delete block;
    }
    for (int i = 0; i < 20; i++) {
        char *block = new (std::nothrow) char[30];
        sink = block;
        delete[] block;
    }
    for (int i = 0; i < 50; i++) {
        Aligned *block = new Aligned;
        sink = block;
        if ((uintptr_t)block % 64 != 0)
            _exit(8);
        delete block;
    }
}

/* Its frames are further in than that of the call that failed. */
ALONE static void after_exception(int depth) {
    volatile char frame[256];
    frame[0] = (char)depth;
    if (depth > 0) {
        after_exception(depth - 1);
        frame[1] = 0;
        return;
    }
    for (int i = 0; i < 6; i++) {
        sink = malloc(9);
        free(sink);
    }
}

ALONE static void thrown() {
    volatile size_t huge = SIZE_MAX / 4;
    try {
        sink = operator new(huge);
        _exit(9);
    } catch (const std::bad_alloc &) {
    }
    after_exception(20);
}

ALONE static void *thread_work(void *) {
    for (int i = 0; i < 1000; i++) {
        void *volatile block = malloc(16);
        free(block);
    }
    return nullptr;
}

ALONE static void threads() {
    pthread_t threads[4];
    for (pthread_t &thread : threads)
        if (pthread_create(&thread, nullptr, thread_work, nullptr) != 0)
            _exit(10);
    for (pthread_t thread : threads)
        pthread_join(thread, nullptr);
}

ALONE static void child_work() {
    for (int i = 0; i < 30; i++)
        sink = malloc(13);
}

ALONE static void forked() {
    pid_t child = fork();
    if (child == 0) {
        child_work();
        _exit(0);
    }
    int status = 1;
    if (waitpid(child, &status, 0) != child || status != 0)
        _exit(11);
}

#ifdef JEMALLOC
extern "C" {
void *mallocx(size_t, int);
void *rallocx(void *, size_t, int);
size_t xallocx(void *, size_t, size_t, int);
void dallocx(void *, int);
void sdallocx(void *, size_t, int);
}

ALONE static void sized() {
    for (int i = 0; i < 30; i++) {
        sink = mallocx(24, 0);
        if (i < 10)
            dallocx(sink, 0);
        else
            sdallocx(sink, 24, 0);
    }
}

ALONE static void resized() {
    sink = mallocx(100, 0);
    sink = rallocx(sink, 5000, 0);
    dallocx(sink, 0);
}

ALONE static void in_place() {
    sink = mallocx(100, 0);
    /* The size class of 100 bytes has 112. */
    if (xallocx(sink, 110, 0, 0) != 112 || xallocx(sink, 100000, 0, 0) != 112)
        _exit(12);
    dallocx(sink, 0);
}

ALONE static void aligned_to_page() {
    for (int i = 0; i < 5; i++) {
        sink = mallocx(48, 12); /* MALLOCX_LG_ALIGN(12) */
        if ((uintptr_t)sink % 4096 != 0)
            _exit(13);
        dallocx(sink, 0);
    }
}
#endif

int main() {
    plain();
    zeroed();
    grown();
    fresh();
    aligned();
    failed();
    library();
    operators();
    thrown();
    threads();
    forked();
#ifdef JEMALLOC
    sized();
    resized();
    in_place();
    aligned_to_page();
#endif
    return 0;
}
