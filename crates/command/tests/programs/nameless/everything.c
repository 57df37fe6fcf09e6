// Program and plugin are stripped.
// STRIP both
// LIBRARY plugin.so
// HEAD run
#include "host.h"

#ifdef LIBRARY
NOINLINE static void work(void) {
    for (int i = 0; i < 300; i++) {
        char *block = malloc(48);
        sink += block != NULL;
        free(block);
    }
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
