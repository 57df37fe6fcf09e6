// Three helpers without names below an exported function.
// STRIP library
// LIBRARY plugin.so
// HEAD plugin.so+0x
#include "host.h"

#ifdef LIBRARY
NOINLINE static char *innermost(void) {
    char *block = malloc(48);
    sink++;
    return block;
}

NOINLINE static char *middle(void) {
    char *block = innermost();
    sink++;
    return block;
}

NOINLINE static char *outer(void) {
    char *block = middle();
    sink++;
    return block;
}

void run(void) {
    for (int i = 0; i < 300; i++) free(outer());
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
