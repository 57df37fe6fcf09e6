// Shapes of live memory over time. Most cases run for about 0.2 s.
//
// `shapes spike`: `sort_copy` holds 2 MB for a moment in the middle of a second; otherwise 256 KiB are live.
// `shapes burst`: `load_all` allocates 4 MB in the first milliseconds, which stay until the
// end; `step` then allocates and frees 64 bytes at a time.
// `shapes nodes`: `add_node` allocates 20,000 nodes of 16 bytes in a list; glibc's malloc
// gives each 32 bytes, so 320,000 bytes are rounding.
// `shapes large`: 500 blocks of 4,000 bytes by `add_large`; rounding is nothing.
// `shapes saw`: `fill` allocates 400 blocks and frees them, 20 times: no growth, no spike.
// `shapes rings`: one list grows to 1,000 blocks and stays there from 10 % of the run on.
// `shapes builds`: `load_all` holds 400 blocks of 4,096 bytes from the start on, and `add_large`
// adds 200 of 4,000 bytes until the end: two thirds of them are a fifth of the peak.
// `shapes thrice`: `grow` makes a block larger by 16 bytes 2,000 times, by realloc.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct node {
    struct node *next;
    long value;
};
static struct node *list;
static void *kept[4000];

static void pause_ms(long ms) {
    struct timespec time = {0, ms * 1000000};
    nanosleep(&time, NULL);
}

__attribute__((noinline)) static void sort_copy(void) {
    char *copy = malloc(2 << 20); // MARK copy
    memset(copy, 1, 2 << 20);
    free(copy);
}

__attribute__((noinline)) static void load_all(int count, size_t size) {
    for (int i = 0; i < count; i++)
        kept[i] = malloc(size); // MARK load
}

__attribute__((noinline)) static void step(void) {
    for (int i = 0; i < 50; i++) {
        char *one = malloc(64), *two = malloc(64);
        free(one);
        free(two);
    }
}

__attribute__((noinline)) static void add_node(long value) {
    struct node *node = malloc(sizeof *node); // MARK node
    node->next = list;
    node->value = value;
    list = node;
}

__attribute__((noinline)) static void add_large(int at) {
    kept[at] = malloc(4000);
}

__attribute__((noinline)) static void fill(void) {
    for (int i = 0; i < 400; i++) {
        kept[i] = malloc(1000);
        if (i % 50 == 0)
            pause_ms(1);
    }
    for (int i = 0; i < 400; i++)
        free(kept[i]);
}

__attribute__((noinline)) static void ring(int at) {
    free(kept[at % 1000]);
    kept[at % 1000] = malloc(500);
}

__attribute__((noinline)) static char *grow(char *text, size_t size) {
    return realloc(text, size); // MARK grow
}

static void free_kept(int count) {
    for (int i = 0; i < count; i++)
        free(kept[i]);
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "";
    if (!strcmp(kind, "spike")) {
        load_all(64, 4096);
        pause_ms(500);
        sort_copy();
        pause_ms(500);
        free_kept(64);
    } else if (!strcmp(kind, "burst")) {
        load_all(1000, 4096);
        for (int i = 0; i < 200; i++) {
            step();
            pause_ms(1);
        }
        free_kept(1000);
    } else if (!strcmp(kind, "nodes")) {
        for (int i = 0; i < 20000; i++)
            add_node(i);
        while (list) {
            struct node *next = list->next;
            free(list);
            list = next;
        }
    } else if (!strcmp(kind, "large")) {
        for (int i = 0; i < 500; i++)
            add_large(i);
        free_kept(500);
    } else if (!strcmp(kind, "saw")) {
        for (int i = 0; i < 20; i++)
            fill();
    } else if (!strcmp(kind, "rings")) {
        for (int i = 0; i < 10000; i++) {
            ring(i);
            if (i % 50 == 0)
                pause_ms(1);
        }
        free_kept(1000);
    } else if (!strcmp(kind, "builds")) {
        load_all(400, 4096);
        for (int i = 0; i < 200; i++) {
            add_large(400 + i);
            pause_ms(1);
        }
        free_kept(600);
    } else if (!strcmp(kind, "thrice")) {
        char *text = NULL;
        for (int i = 1; i <= 2000; i++)
            text = grow(text, (size_t)i * 16);
        free(text);
    }
    return 0;
}
