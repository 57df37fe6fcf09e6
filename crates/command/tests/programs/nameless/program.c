// A stripped program allocates.
// STRIP program
// LIBRARY plugin.so
// HEAD program+0x
#include "host.h"

#ifdef LIBRARY
void run(void) {}
#else
NOINLINE static void work(void) {
    for (int i = 0; i < 300; i++) {
        char *block = malloc(48);
        sink += block != NULL;
        free(block);
    }
    sink++;
}

int main(int argc, char **argv) {
    work();
    return argc != 2;
}
#endif
