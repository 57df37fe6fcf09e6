/* Names that a CI system would take for its commands, wherever a program can have one: of
   windows, of a function (the symbol `evil` is renamed by objcopy), of lines that it prints.
   In each window 5 blocks of 24 bytes from `evil`, 7 more with WORSE, all freed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allotrope.h"

static void *volatile sink;

#ifdef WORSE
enum { MORE = 7 };
#else
enum { MORE = 0 };
#endif

__attribute__((noipa)) void evil(int count) {
    for (int i = 0; i < count; i++) {
        sink = malloc(24);
        free(sink);
    }
}

int main(int argc, char **argv) {
    static const char *const names[] = {
        "::set-output::a",
        "##[error]b",
        "##vso[task.setvariable]c",
        "##teamcity[d]",
    };
    for (int name = 0; name < 4; name++) {
        uint64_t window = allotrope_window_open(names[name], strlen(names[name]), 1, 0);
        evil(5 + MORE);
        allotrope_window_close(window, 0);
        puts(names[name]);
    }
    return argc > 1 && strcmp(argv[1], "fail") == 0 ? 3 : 0;
}
