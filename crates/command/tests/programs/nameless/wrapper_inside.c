// A plugin's own wrapper of malloc, stripped as the rest.
// STRIP library
// LIBRARY plugin.so
// HEAD run
#include "host.h"

#ifdef LIBRARY
NOINLINE static void *allocate(size_t size) {
    void *block = malloc(size);
    if (!block) abort();
    return block;
}

NOINLINE static void work(void) {
    for (int i = 0; i < 300; i++) free(allocate(48));
    sink++;
}

void run(void) {
    work();
    sink++;
}
#else
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
