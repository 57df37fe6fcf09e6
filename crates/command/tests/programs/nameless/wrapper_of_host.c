// Nameless code calls the program's wrapper of malloc.
// STRIP library
// LIBRARY plugin.so
// HEAD run
#include "host.h"

#ifdef LIBRARY
extern void *xmalloc(size_t size);

NOINLINE static void work(void) {
    for (int i = 0; i < 300; i++) free(xmalloc(48));
    sink++;
}

void run(void) {
    work();
    sink++;
}
#else
NOINLINE void *xmalloc(size_t size) {
    void *block = malloc(size);
    if (!block) abort();
    return block;
}

NOINLINE static void host_work(const char *path) {
    void (*run)(void) = (void (*)(void))symbol(path, "run");
    run();
    sink++;
}

int main(int argc, char **argv) {
    host_work(argv[1]);
    return argc != 2;
}
#endif
