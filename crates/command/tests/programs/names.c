/* Names that would steer a terminal, forge a line or read the other way round,
   wherever a program can have one: of a thread, of a window, of a source file.
   Compiled without debug information, the symbol `evil` is renamed by objcopy.
   `names`: in each of two windows of one name 5 blocks of 24 bytes from `evil`, 7
   more with WORSE, never freed; 3 of 40 bytes from the thread, freed. */
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

#ifdef WORSE
enum { MORE = 7 };
#else
enum { MORE = 0 };
#endif

#line 1 "src\033[31m\nallotrope: FORGED\n::error::FORGED\302\233K\342\200\256.c"
__attribute__((noipa)) static void evil(int count) {
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
    pthread_t other;
    pthread_create(&other, NULL, thread, NULL);
    pthread_join(other, NULL);
    const char name[] = "w" NASTY;
    for (int run = 0; run < 2; run++) {
        uint64_t window = allotrope_window_open(name, strlen(name), 1, 0);
        evil(5 + MORE);
        allotrope_window_close(window, 0);
    }
    puts("\033[2J::error::FORGED ##[error]FORGED");
    return argc > 1 && strcmp(argv[1], "fail") == 0 ? 3 : 0;
}
