// Findings about the kernel's side.
//
// `system fork-frees`: a child that inherits 2,000 blocks of 4,000 bytes frees all of them:
// at least 1,900 pages are copied.
// `system fork-exits`: the child ends by _exit.
// `system handler`: `on_signal` allocates 64 bytes in a handler of SIGUSR1, five times.
// `system flag`: the handler sets a flag.
// `system stays`: 64 MB in blocks of 1,000 bytes are freed, but `note` allocates 64 bytes
// after every eighth: 8,000 blocks that are at least 8,000 bytes apart, each in a page of its
// own, so glibc gives nearly nothing back. The program runs on for half a second.
// `system returns`: 64 MB in one block, which `free` unmaps.
// `system maps`: as `stays` with 8 MB, but then the program maps 128 MB itself.

#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BLOCKS = 64000 };
static char *blocks[BLOCKS], *notes[BLOCKS / 8];
static volatile sig_atomic_t seen;
static void *volatile taken;

static void pause_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&time, &time) != 0) {
    }
}

__attribute__((noinline)) static void on_signal(int number) {
    taken = malloc(64); // MARK handler
    seen++;
}

static void set_flag(int number) {
    seen++;
}

__attribute__((noinline)) static void load(int count, size_t size) {
    for (int i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        memset(blocks[i], 1, size);
    }
}

__attribute__((noinline)) static void note(int at) {
    notes[at] = malloc(64);
    notes[at][0] = 1;
}

__attribute__((noinline)) static void load_with_notes(int count) {
    for (int i = 0; i < count; i++) {
        blocks[i] = malloc(1000);
        memset(blocks[i], 1, 1000);
        if (i % 8 == 7)
            note(i / 8);
    }
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "";
    if (!strncmp(kind, "fork", 4)) {
        load(2000, 4000);
        pid_t child = fork();
        if (child == 0) {
            if (!strcmp(kind, "fork-frees")) {
                for (int i = 0; i < 2000; i++)
                    free(blocks[i]);
            }
            _exit(0);
        }
        waitpid(child, NULL, 0);
        for (int i = 0; i < 2000; i++)
            free(blocks[i]);
    } else if (!strcmp(kind, "handler") || !strcmp(kind, "flag")) {
        signal(SIGUSR1, !strcmp(kind, "flag") ? set_flag : on_signal);
        for (int i = 0; i < 5; i++)
            raise(SIGUSR1);
        free(taken);
    } else if (!strcmp(kind, "stays")) {
        pause_ms(300);
        load_with_notes(BLOCKS);
        pause_ms(300);
        for (int i = 0; i < BLOCKS; i++)
            free(blocks[i]);
        pause_ms(600);
        _exit(0);
    } else if (!strcmp(kind, "returns")) {
        pause_ms(300);
        char *block = malloc(64 << 20);
        memset(block, 1, 64 << 20);
        pause_ms(300);
        free(block);
        pause_ms(600);
    } else if (!strcmp(kind, "maps")) {
        pause_ms(300);
        load_with_notes(BLOCKS / 8);
        pause_ms(300);
        for (int i = 0; i < BLOCKS / 8; i++)
            free(blocks[i]);
        size_t size = 128 << 20;
        char *own = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (own != MAP_FAILED)
            memset(own, 1, size);
        pause_ms(600);
        _exit(0);
    }
    return (int)seen > 100;
}
