// Makes PER allocations in each of 1,000 iterations and then executes another program:
//
//   iterate PROGRAM ARGUMENT…
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *volatile kept;

int main(int count, char **words) {
    for (int i = 0; i < 1000 * PER; i++) {
        kept = malloc(64);
        free(kept);
    }
    execvp(words[1], words + 1);
    perror(count > 1 ? words[1] : "iterate");
    return 127;
}
