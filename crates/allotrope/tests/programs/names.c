/* Names that would steer a terminal, forge a line or read the other way round,
   wherever a program can have one: of a function (whose symbol the assembler
   takes as it is), of a thread, of windows. `names`: 10 blocks of 24 bytes from
   the function, 7 more with `worse`, never given back, in one window; 3 of 40
   bytes from the thread, given back. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allotrope.h"

static void *volatile sink;

/* ESC, a newline with what looks like a line of ours behind it, a C1 control, a
   right-to-left override. */
#define NASTY "\033[31m\nallotrope: FORGED\n::error::FORGED\302\233K\342\200\256;x"

__attribute__((noipa)) static void evil(int count) __asm__("evil" NASTY);
static void evil(int count) {
    for (int i = 0; i < count; i++)
        sink = malloc(24);
}

static void *thread(void *nothing) {
    pthread_setname_np(pthread_self(), "t\033[31m\n\342\200\256x");
    for (int i = 0; i < 3; i++) {
        sink = malloc(40);
        free(sink);
    }
    return nothing;
}

int main(int argc, char **argv) {
    int more = argc > 1 && strcmp(argv[1], "worse") == 0 ? 7 : 0;
    pthread_t other;
    pthread_create(&other, NULL, thread, NULL);
    pthread_join(other, NULL);
    const char name[] = "w" NASTY;
    for (int run = 0; run < 2; run++) {
        allotrope_window window = allotrope_window_open(name, strlen(name), 1, 0);
        evil(5);
        if (run == 1)
            evil(more);
        allotrope_window_close(window, 1);
    }
    return argc > 1 && strcmp(argv[1], "fail") == 0 ? 3 : 0;
}
