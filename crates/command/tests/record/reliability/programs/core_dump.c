/* A child that dumps core: `core_dump BYTES`. The child has a block of 100 bytes
 * from `last_allocation`, a text in it, and aborts, in the working directory; its
 * limit for a core file is BYTES, or as much as it may with `all`. Its parent
 * prints what waitpid returned and what the limit was: the same with and without a
 * recording. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

char *volatile kept;

__attribute__((noipa)) static void last_allocation(void) {
    kept = malloc(100);
    strcpy(kept, "kept in the core");
    abort();
}

int main(int argc, char **argv) {
    struct rlimit limit;
    if (argc < 2 || getrlimit(RLIMIT_CORE, &limit) != 0)
        return 98;
    limit.rlim_cur = strcmp(argv[1], "all") == 0 ? limit.rlim_max : (rlim_t)atol(argv[1]);
    if (setrlimit(RLIMIT_CORE, &limit) != 0)
        return 96;
    pid_t child = fork();
    if (child == 0)
        last_allocation();
    int status = 0;
    if (waitpid(child, &status, 0) != child)
        return 95;
    printf("signal %d, dumped %d, limit %ju\n", WTERMSIG(status), WCOREDUMP(status) != 0,
           (uintmax_t)limit.rlim_cur);
    return 7;
}
