// The C library calls nameless code for the program.
// STRIP library
// LIBRARY plugin.so
// HEAD plugin.so+0x
#include "host.h"

#ifdef LIBRARY
NOINLINE static int compare(const void *a, const void *b) {
    char *block = malloc(48);
    sink += block != NULL;
    free(block);
    return *(const int *)a - *(const int *)b;
}

void *run(void) { return compare; }
#else
int main(int argc, char **argv) {
    void *(*run)(void) = (void *(*)(void))symbol(argv[1], "run");
    int (*compare)(const void *, const void *) = (int (*)(const void *, const void *))run();
    int key = 1, all[] = {0};
    // One element: one comparison.
    for (int i = 0; i < 300; i++) bsearch(&key, all, 1, sizeof key, compare);
    return argc != 2;
}
#endif
