// Allocates and frees 100 blocks. With an argument, a forked child does that, and nobody else.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char **arguments) {
    (void)arguments;
    if (count > 1 && fork() != 0) {
        return wait(NULL) < 0;
    }
    for (int i = 0; i < 100; i++) {
        free(malloc(32));
    }
    return 0;
}
