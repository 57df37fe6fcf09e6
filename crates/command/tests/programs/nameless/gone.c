// The file of a plugin is another one when it allocates.
// STRIP none
// LIBRARY plugin.so
// HEAD plugin.so+0x
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
    // As an upgrade in place does.
    FILE *file = fopen(path, "r+");
    if (!file || ftruncate(fileno(file), lseek(fileno(file), 0, SEEK_END) + 4096)) _exit(8);
    fclose(file);
    run();
    sink++;
}

int main(int argc, char **argv) {
    host_work(argv[1]);
    return argc != 2;
}
#endif
