// A test of SwiftNIO's allocation counters, as the documents show them: one measured run has 1,000
// iterations of 75 allocations of 55 bytes, and one of 13,056 bytes that only the first needs. That
// is 75,001 allocations of 4,138,056 bytes, and none remains. An argument is the number of runs in
// one process.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *volatile kept;

static void *slow_alloc(size_t size) { return malloc(size); }

// 3 allocations.
static void flat_map(void) {
    for (int i = 0; i < 3; i++)
        free(slow_alloc(55)); // MARK flat_map
}

// 21 allocations.
static void buffer(void) {
    for (int i = 0; i < 21; i++)
        free(slow_alloc(55)); // MARK buffer
}

// 51 allocations.
static void run_callbacks(void) {
    for (int i = 0; i < 51; i++)
        free(slow_alloc(55)); // MARK callbacks
}

#ifdef WORSE
// What the branch adds: one temporary allocation an iteration.
static void debug_print(void) {
    free(slow_alloc(7)); // MARK debug_print
}
#endif

static void do_requests(void) {
    for (int i = 0; i < 1000; i++) {
        flat_map();
        buffer();
        run_callbacks();
#ifdef WORSE
        debug_print();
#endif
    }
}

static void measure(int runs) {
    for (int i = 0; i < runs; i++) {
        free(slow_alloc(13056)); // MARK noise
        do_requests();
    }
}

// As many allocations in four threads together, and as many in each run.
static void *in_thread(void *unused) {
    do_requests();
    return unused;
}

static void threads(void) {
    pthread_t all[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&all[i], NULL, in_thread, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(all[i], NULL);
}

// Every start has ten allocations more than the one before.
static void fluctuate(void) {
    FILE *file = fopen("starts", "a+");
    fputc('x', file);
    long starts = ftell(file);
    fclose(file);
    for (long i = 0; i < 10 * starts; i++)
        free(slow_alloc(32)); // MARK fluctuate
}

// One block that is never freed, and one that lives for 20 ms or more.
static void keep(void) {
    usleep(20000);
    kept = slow_alloc(400); // MARK kept
    void *freed = slow_alloc(300);
    usleep(20000);
    free(freed);
}

int main(int count, char **words) {
    const char *wanted = count > 1 ? words[1] : "1";
    if (getenv("SWIFTNIO_URING_DISABLED"))
        fputs("SWIFTNIO_URING_DISABLED set, disabling liburing.\n", stderr);
    if (wanted[0] == 'a') {
        // As the document's program ends: "Aborted (core dumped)".
        measure(1);
        abort();
    }
    if (wanted[0] == 't')
        threads();
    else if (wanted[0] == 'f')
        fluctuate();
    else if (wanted[0] == 'k')
        keep();
    else
        measure(atoi(wanted));
    return 0;
}
