/* Two functions with names that hold blocks of a library without: `rows` 100 of 2,000 bytes, `columns` 100
 * of 1,000. Compiled with LIBRARY it is that library, whose only name is three frames further out
 * than `malloc`. `unnamed_rows LIBRARY`. */
#include <dlfcn.h>
#include <stdlib.h>

static void *volatile sink;

#ifdef LIBRARY
#define ALONE __attribute__((noinline)) static

ALONE void innermost(size_t bytes) {
    sink = malloc(bytes);
}

ALONE void middle(size_t bytes) {
    innermost(bytes);
    sink = NULL;
}

ALONE void outer(size_t bytes) {
    middle(bytes);
    sink = NULL;
}

void take(size_t bytes) {
    outer(bytes);
    sink = NULL;
}
#else
static void (*take)(size_t);

__attribute__((noipa)) static void rows(void) {
    for (int i = 0; i < 100; i++)
        take(2000);
    sink = NULL;
}

__attribute__((noipa)) static void columns(void) {
    for (int i = 0; i < 100; i++)
        take(1000);
    sink = NULL;
}

int main(int argc, char **argv) {
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    take = library ? (void (*)(size_t))dlsym(library, "take") : NULL;
    if (!take)
        return 1;
    rows();
    columns();
    return 0;
}
#endif
