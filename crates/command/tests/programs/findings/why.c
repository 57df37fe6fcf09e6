// Cases for `show --why`, of which one number decides.
//
// `why under`: `add_letter` allocates 2,114 blocks of 1 byte, all live at the peak. glibc's malloc
// gives each 32 bytes, so 2,114 * 31 = 65,534 bytes are rounding: 2 less than 64 KiB.
// `why over`: 2,115 such blocks: 65,565 bytes of rounding.
// `why kinds`: six functions leak 30 blocks of 512 bytes each, three in each of ten equal parts of the
// run. `main` allocates and frees 4,000 blocks beside them.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void *letters[2115];
static void *volatile last;

__attribute__((noinline)) static void add_letter(int at) {
    letters[at] = malloc(1); // MARK letter
}

#define LEAKS(name)                                                                                \
    __attribute__((noinline)) static void name(void) {                                             \
        last = malloc(512);                                                                        \
        memset(last, 1, 512);                                                                      \
    }
LEAKS(first)
LEAKS(second)
LEAKS(third)
LEAKS(fourth)
LEAKS(fifth)
LEAKS(sixth)

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "under";
    if (!strcmp(kind, "kinds")) {
        for (int round = 0; round < 30; round++) {
            first();
            second();
            third();
            fourth();
            fifth();
            sixth();
            for (int i = 0; i < 133 + (round < 10); i++) {
                last = malloc(64);
                free(last);
            }
            struct timespec time = {0, 10000000};
            nanosleep(&time, NULL);
        }
        return 0;
    }
    int count = !strcmp(kind, "over") ? 2115 : 2114;
    for (int i = 0; i < count; i++)
        add_letter(i);
    for (int i = 0; i < count; i++)
        free(letters[i]);
    return 0;
}
