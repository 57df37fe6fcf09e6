// The loader runs nameless code for the program.
// STRIP library
// LIBRARY plugin.so
// HEAD plugin.so+0x
#include "host.h"

#ifdef LIBRARY
__attribute__((constructor)) static void begin(void) {
    for (int i = 0; i < 300; i++) {
        char *block = malloc(48);
        sink += block != NULL;
        free(block);
    }
}

void run(void) { sink++; }
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
