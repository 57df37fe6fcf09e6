// The resolved path is allocated by realpath(), which used to get an array.
// BLAME is_below
#define _GNU_SOURCE
#include <limits.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static int is_below(const char *folder, const char *path) {
#ifndef AFTER
    char resolved[PATH_MAX];
    if (!realpath(path, resolved))
        return 0;
    return strncmp(folder, resolved, strlen(folder)) == 0;
#else
    char *resolved = realpath(path, NULL); // MARK blame
    if (!resolved)
        return 0;
    int is = strncmp(folder, resolved, strlen(folder)) == 0;
    free(resolved);
    return is;
#endif
}

int main(void) {
    int below = 0;
    for (int i = 0; i < 300; i++)
        below += is_below("/", "/./");
    return below == 0;
}
