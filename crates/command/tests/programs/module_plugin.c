// A library of `module_host.c`. A build with OTHER has another function at the same
// addresses, with another name; one with KEEP never frees.
#include <stdlib.h>

#ifdef OTHER
#define plugin_block other_block
#endif

__attribute__((noinline)) static char *plugin_block(int i) {
    char *block = malloc(48); // MARK block
    block[0] = i;
    return block;
}

int plugin_work(int n) {
    int done = 0;
    for (int i = 0; i < n; i++) {
        char *block = plugin_block(i);
        done += block[0] == (char)i;
#ifndef KEEP
        free(block);
#endif
    }
    return done;
}
