/* One thread, `stream N`: N pairs of malloc(48) and free, from `stream`. */
#include <stdlib.h>

static void *volatile sink;

__attribute__((noipa)) static void stream(long count) {
    for (long i = 0; i < count; i++) {
        sink = malloc(48);
        free(sink);
    }
}

int main(int argc, char **argv) {
    stream(argc > 1 ? atol(argv[1]) : 0);
    return 0;
}
