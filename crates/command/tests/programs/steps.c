/* Three steps. Before the second and the third it writes a line to its standard output
 * and waits for a byte on its standard input:
 *
 *   "1 PID": `first_step` has allocated 10 blocks of 1000 bytes.
 *   "2":     `second_step` has allocated 20 blocks of 300 bytes, and 4 of the first are
 *            freed.
 *   At its end 6 blocks of the first step and 20 of the second are live. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *first[10], *second[20];

__attribute__((noinline)) static void first_step(void) {
    for (int i = 0; i < 10; i++)
        first[i] = malloc(1000);
}

__attribute__((noinline)) static void second_step(void) {
    for (int i = 0; i < 20; i++)
        second[i] = malloc(300);
}

/* No stdio, which would allocate buffers. */
static void wait_after(const char *line) {
    char byte;
    if (write(1, line, strlen(line)) < 0 || read(0, &byte, 1) != 1)
        _exit(1);
}

int main(void) {
    char line[32];
    first_step();
    snprintf(line, sizeof line, "1 %d\n", (int)getpid());
    wait_after(line);
    second_step();
    for (int i = 0; i < 4; i++)
        free(first[i]);
    wait_after("2\n");
    return 0;
}
