/* The library that deep_binding.c opens. The program has a `choice`, too. */
#include <stdlib.h>

static void *volatile block;

int choice(void) { return 2; }

int chosen(void) { return choice(); }

__attribute__((noinline)) static void *constructed(void) {
    block = malloc(10);
    return block;
}

static void *kept;

__attribute__((constructor)) static void begin(void) { kept = constructed(); }

__attribute__((destructor)) static void end(void) { free(kept); }

__attribute__((noinline)) void *library_makes(size_t size) {
    block = malloc(size);
    return block;
}

__attribute__((noinline)) void *library_clears(size_t size) {
    block = calloc(2, size);
    return block;
}

__attribute__((noinline)) void *library_grows(void *given, size_t size) {
    block = realloc(given, size);
    return block;
}

__attribute__((noinline)) void *library_aligns(size_t size) {
    void *aligned = 0;
    if (posix_memalign(&aligned, 64, size) != 0)
        abort();
    return aligned;
}

__attribute__((noinline)) void library_frees(void *given) { free(given); }
