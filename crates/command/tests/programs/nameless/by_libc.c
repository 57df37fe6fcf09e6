// Nameless code allocates by a function of the C library.
// STRIP library
// LIBRARY plugin.so
// HEAD run
#include "host.h"

#ifdef LIBRARY
NOINLINE static void work(void) {
    for (int i = 0; i < 300; i++) {
        char *copy = strdup("a text of some length");
        sink += copy[0];
        free(copy);
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
