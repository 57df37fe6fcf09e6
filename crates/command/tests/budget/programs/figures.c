// Each case of this program differs in one metric if WORSE is defined; by how much follows
// from its loops.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "allotrope.h"

#ifdef WORSE
#define MORE 1
#else
#define MORE 0
#endif

static void *volatile kept[8];

// 100 reallocations, or 7 more.
static void grow(void) {
    void *block = malloc(16);
    for (int i = 0; i < 100 + 7 * MORE; i++) {
        block = realloc(block, 32 + i); // MARK grow
    }
    free(block);
}

// 10 blocks of 1000 bytes at once, and one of 4096 more.
static void hold(void) {
    void *blocks[11] = {0};
    for (int i = 0; i < 10; i++) {
        blocks[i] = malloc(1000);
    }
    if (MORE) {
        blocks[10] = malloc(4096); // MARK hold
    }
    for (int i = 0; i < 11; i++) {
        free(blocks[i]);
    }
}

// 50 temporary allocations, or 5 more.
static void temporary(void) {
    for (int i = 0; i < 50 + 5 * MORE; i++) {
        free(malloc(24)); // MARK temporary
    }
}

// A window in which 3 blocks remain and 1 older one is freed: net is 2. Or 5 and 2: 3.
static void net(void) {
    void *older[2] = {malloc(5), malloc(5)};
    uint64_t window = allotrope_open("net", 0, 0);
    for (int i = 0; i < 3 + 2 * MORE; i++) {
        kept[i] = malloc(8); // MARK net
    }
    for (int i = 0; i < 1 + MORE; i++) {
        free(older[i]);
    }
    allotrope_window_close(window, 0);
}

// A window in which no file is left open, or one.
static void descriptors(void) {
    uint64_t window = allotrope_open("descriptors", 0, ALLOTROPE_COMPARE_DESCRIPTORS);
    kept[0] = malloc(1);
    if (MORE) {
        open("left-open", O_RDWR | O_CREAT, 0600);
    }
    allotrope_window_close(window, 0);
}

int main(int count, char **words) {
    const char *name = count > 1 ? words[1] : "";
    if (!strcmp(name, "grow")) {
        grow();
    } else if (!strcmp(name, "hold")) {
        hold();
    } else if (!strcmp(name, "temporary")) {
        temporary();
    } else if (!strcmp(name, "net")) {
        net();
    } else if (!strcmp(name, "descriptors")) {
        descriptors();
    }
    return 0;
}
