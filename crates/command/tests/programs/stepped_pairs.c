// 1,000 pairs of malloc and free of several sizes, and a calloc and a realloc in each tenth.
#include <stdlib.h>

int main(void) {
    for (int i = 0; i < 1000; i++) {
        char *volatile block = malloc(16 + i % 5 * 100);
        if (i % 10 == 0) {
            char *volatile other = calloc(1, 100);
            other = realloc(other, 300);
            free(other);
        }
        free(block);
    }
    return 0;
}
