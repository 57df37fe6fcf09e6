/* A program in C that loads a library in Rust: `telegraph_host LIBRARY MESSAGES`. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    void *library = dlopen(argv[1], RTLD_NOW);
    uint64_t (*telegraph)(uint64_t) = NULL;
    if (library != NULL) *(void **)&telegraph = dlsym(library, "telegraph");
    if (telegraph == NULL) return 3;
    printf("%llu\n", (unsigned long long)telegraph(strtoull(argv[2], NULL, 10)));
    return 0;
}
