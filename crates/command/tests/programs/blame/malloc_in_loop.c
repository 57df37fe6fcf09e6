// The row's buffer is allocated in the loop, where it was allocated once.
// BLAME blur
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static int blur(unsigned char *image, int width, int height) {
    int sum = 0;
#ifndef AFTER
    unsigned char *row = malloc(width);
#endif
    for (int y = 0; y < height; y++) {
#ifdef AFTER
        unsigned char *row = malloc(width); // MARK blame
#endif
        unsigned char *source = image + y * width;
        memcpy(row, source, width);
        for (int x = 1; x + 1 < width; x++)
            source[x] = (row[x - 1] + row[x] + row[x + 1]) / 3;
        sum += source[1];
#ifdef AFTER
        free(row);
#endif
    }
#ifndef AFTER
    free(row);
#endif
    return sum;
}

int main(void) {
    static unsigned char image[64 * 500];
    memset(image, 9, sizeof image);
    return blur(image, 64, 500) == 0;
}
