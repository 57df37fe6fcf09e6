// The key is printed to a new block, where it was printed to an array.
// BLAME hash_of
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

static unsigned hash_of(const char *host, int port) {
#ifndef AFTER
    char key[80];
    snprintf(key, sizeof key, "%s:%d", host, port);
#else
    char *key;
    if (asprintf(&key, "%s:%d", host, port) < 0) // MARK blame
        return 0;
#endif
    unsigned hash = 5381;
    for (const char *at = key; *at; at++)
        hash = hash * 33 + (unsigned char)*at;
#ifdef AFTER
    free(key);
#endif
    return hash;
}

int main(void) {
    unsigned sum = 0;
    for (int port = 1; port <= 500; port++)
        sum += hash_of("example.org", port);
    return sum == 0;
}
