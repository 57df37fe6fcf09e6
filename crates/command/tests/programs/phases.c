/* Three phases, each in a window of its own, with pauses before and after each:
 * `first_phase` allocates 10 blocks of 100 bytes; `second_phase` allocates 20 blocks of 200 bytes, and 5
 * of the early ones are freed; the other 5 and 3 of the late ones are freed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static void *blocks[30];

static void pause_for_a_moment(void) {
    struct timespec moment = {.tv_nsec = 20 * 1000 * 1000};
    nanosleep(&moment, NULL);
}

__attribute__((noinline)) static void first_phase(void) {
    for (int i = 0; i < 10; i++)
        blocks[i] = malloc(100);
}

__attribute__((noinline)) static void second_phase(void) {
    for (int i = 10; i < 30; i++)
        blocks[i] = malloc(200);
}

static void release(int from, int to) {
    for (int i = from; i < to; i++)
        free(blocks[i]);
}

int main(void) {
    uint64_t (*window_open)(const char *, size_t, uint64_t, uint32_t);
    void (*window_close)(uint64_t, uint32_t);
    *(void **)&window_open = dlsym(RTLD_DEFAULT, "allotrope_window_open");
    *(void **)&window_close = dlsym(RTLD_DEFAULT, "allotrope_window_close");
    pause_for_a_moment();
    uint64_t window = window_open("first", 5, 1, 0);
    first_phase();
    window_close(window, 0);
    pause_for_a_moment();
    window = window_open("second", 6, 1, 0);
    second_phase();
    release(0, 5);
    window_close(window, 0);
    pause_for_a_moment();
    window = window_open("third", 5, 1, 0);
    release(5, 13);
    window_close(window, 0);
    pause_for_a_moment();
    return 0;
}
