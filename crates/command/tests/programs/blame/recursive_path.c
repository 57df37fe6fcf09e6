// The walk makes a new path for each level, where it appended to one array.
// BLAME walk
#include <stdlib.h>
#include <string.h>

#ifndef AFTER
static int walk(char *path, int depth) {
    size_t length = strlen(path);
    int size = (int)length;
    for (int child = 0; depth > 0 && child < 3; child++) {
        path[length] = '/';
        path[length + 1] = (char)('a' + child);
        path[length + 2] = 0;
        size += walk(path, depth - 1);
        path[length] = 0;
    }
    return size;
}
#else
static int walk(const char *path, int depth) {
    size_t length = strlen(path);
    int size = (int)length;
    for (int child = 0; depth > 0 && child < 3; child++) {
        char *below = malloc(length + 3); // MARK blame
        memcpy(below, path, length);
        below[length] = '/';
        below[length + 1] = (char)('a' + child);
        below[length + 2] = 0;
        size += walk(below, depth - 1);
        free(below);
    }
    return size;
}
#endif

int main(void) {
    char path[64] = "/srv";
    return walk(path, 6) == 0;
}
