// Leaks of the program's own, beside the blocks that libraries keep by design: libstdc++'s
// pool, the buffer of stdout, the locale.
//
// Of its own, 5 blocks: a Registry of 16 bytes and its names of 111, allocated by a static
// constructor, and with an argument 3 of 7 bytes.
#include <clocale>
#include <cstdio>

struct Registry {
    char *names = new char[111];
    long entries = 0;
};

static Registry *registry = new Registry;

static void *volatile lost;

__attribute__((noinline)) static void lose() {
#pragma GCC unroll 1
    for (int i = 0; i < 3; i++) {
        lost = new char[7];
    }
}

int main(int argc, char **) {
    setlocale(LC_ALL, "");
    printf("%ld entries\n", registry->entries);
    if (argc > 1) {
        lose();
    }
}

#ifdef OTHER_COMPILER
__asm__(".ident \"Other compiler 1.0\"");
#endif
