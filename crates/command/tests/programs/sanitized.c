/* 100 blocks of 10 bytes made by make_blocks, of which 7 are never freed. There is no
 * other fault, so a sanitizer reports only the leak. */
#include <stdlib.h>

static void *volatile kept[7];

__attribute__((noinline)) static void make_blocks(void) {
    for (int i = 0; i < 100; i++) {
        void *block = malloc(10);
        if (i < 7)
            kept[i] = block;
        else
            free(block);
    }
}

int main(void) {
    make_blocks();
    return 0;
}
