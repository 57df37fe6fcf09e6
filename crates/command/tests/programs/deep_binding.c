/* Opens a library (deep_library.c) with RTLD_DEEPBIND, twice, bound lazily or at once
 * ("lazy", "now"). Each time, the library's constructor makes a block of 10 bytes,
 * which its destructor frees; and 300 times each
 *   the library makes a block of 20 bytes, the program frees it: library_makes;
 *   the program makes one of 30, the library frees it: program_makes;
 *   the library makes one of 2 times 40 bytes and frees it: library_clears;
 *   the program makes one of 50, the library makes 60 of it, the program frees that:
 *   program_grows and library_grows;
 *   the library makes one of 70 by posix_memalign, the program frees it: library_aligns.
 * So 2 * 300 by each, and 2 by `constructed`; nothing is left. The library must call
 * its own `choice`, not the program's: that is the purpose of RTLD_DEEPBIND. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { TIMES = 300 };

int choice(void) { return 1; }

static void *volatile block;

__attribute__((noinline)) static void *program_makes(void) {
    block = malloc(30);
    return block;
}

__attribute__((noinline)) static void *program_grows(void) {
    block = malloc(50);
    return block;
}

int main(int count, char **arguments) {
    int bound = strcmp(arguments[1], "now") == 0 ? RTLD_NOW : RTLD_LAZY;
    for (int opening = 0; opening < 2; opening++) {
        void *library = dlopen(arguments[2], bound | RTLD_DEEPBIND);
        if (library == 0)
            return 3;
        int (*chosen)(void) = dlsym(library, "chosen");
        void *(*makes)(size_t) = dlsym(library, "library_makes");
        void *(*clears)(size_t) = dlsym(library, "library_clears");
        void *(*grows)(void *, size_t) = dlsym(library, "library_grows");
        void *(*aligns)(size_t) = dlsym(library, "library_aligns");
        void (*frees)(void *) = dlsym(library, "library_frees");
        if (chosen() != 2)
            return 4;
        for (int i = 0; i < TIMES; i++) {
            free(makes(20));
            frees(program_makes());
            frees(clears(40));
            free(grows(program_grows(), 60));
            free(aligns(70));
        }
        if (dlclose(library) != 0)
            return 5;
    }
    return 0;
}
