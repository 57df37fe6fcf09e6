// blamed: duplicate
// Holds a document of 100 KB for a while, and 2 MB for a moment to search it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char *document[100];

__attribute__((noinline)) static char *duplicate(void) {
    char *all = malloc(2 << 20);
    for (int i = 0; i < 2; i++)
        memset(all + ((size_t)i << 20), 'a' + i, 1 << 20);
    return all;
}

__attribute__((noinline)) static void load(void) {
    for (int i = 0; i < 100; i++)
        document[i] = calloc(1, 1000);
}

int main(void) {
    struct timespec pause = {0, 500000000};
    load();
    nanosleep(&pause, NULL);
    char *all = duplicate();
    int found = memchr(all, 'b', 2 << 20) != NULL;
    free(all);
    nanosleep(&pause, NULL);
    for (int i = 0; i < 100; i++)
        free(document[i]);
    fprintf(stderr, "%d\n", found);
    return 0;
}
