// Nameless code calls back a function of the program, which allocates.
// STRIP library
// LIBRARY plugin.so
// HEAD callback
#include "host.h"

#ifdef LIBRARY
void run(void (*function)(void)) {
    for (int i = 0; i < 300; i++) function();
    sink++;
}
#else
NOINLINE static void callback(void) {
    char *block = malloc(48);
    sink += block != NULL;
    free(block);
}

int main(int argc, char **argv) {
    void (*run)(void (*)(void)) = (void (*)(void (*)(void)))symbol(argv[1], "run");
    run(callback);
    return argc != 2;
}
#endif
