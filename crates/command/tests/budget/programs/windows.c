// Windows of a test: how many allocations are in each follows from its loop.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allotrope.h"

static void *volatile kept;
static int calls;

// 100 allocations and the descriptor of a file that stays open.
static void leak(void *context) {
    (void)context;
    for (int i = 0; i < 100; i++) {
        free(malloc(10));
    }
    open("leaked", O_RDWR | O_CREAT, 0600);
}

// 7 allocations; the second call after the warm-up keeps one more.
static void once_more(void *context) {
    (void)context;
    for (int i = 0; i < 7; i++) {
        free(malloc(10));
    }
    if (++calls == 3) {
        kept = malloc(11); // MARK kept
    }
}

int main(int count, char **words) {
    const char *name = count > 1 ? words[1] : "";
    // Allocations before and after a window are not counted in it.
    kept = malloc(1000);
    if (!strcmp(name, "leak")) {
        allotrope_measure("leak", 1, 10, 0, leak, NULL);
    } else if (!strcmp(name, "runs")) {
        allotrope_measure("runs", 1, 10, 0, once_more, NULL);
    } else if (!strcmp(name, "guards")) {
        // Windows without warm-up and runs: the program is started several times.
        uint64_t outer = allotrope_open("outer", 0, 0);
        kept = malloc(1);
        uint64_t inner = allotrope_open("in\nner", 0, 0);
        kept = malloc(1);
        kept = malloc(1);
        allotrope_window_close(inner, 0);
        allotrope_window_close(outer, 0);
    } else if (!strcmp(name, "slash")) {
        // 20 allocations, 2 of which remain; 30 allocations.
        uint64_t small = allotrope_open("parse/small", 0, 0);
        for (int i = 0; i < 18; i++) {
            free(malloc(10));
        }
        kept = malloc(10);
        kept = malloc(10);
        allotrope_window_close(small, 0);
        uint64_t large = allotrope_open("parse/large", 0, 0);
        for (int i = 0; i < 30; i++) {
            free(malloc(1000));
        }
        allotrope_window_close(large, 0);
    } else if (!strcmp(name, "open")) {
        allotrope_open("never-closed", 0, 0);
    }
    FILE *starts = fopen("starts", "a");
    fputs("x", starts);
    fclose(starts);
    return 0;
}
