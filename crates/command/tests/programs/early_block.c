/* A block that was allocated while the loader relocated a library, freed by the program and by a child
 * of it: 0 if both go on. With LIBRARY defined it is the library, whose resolver (ifunc) allocates the
 * block. Where the loader relocates the library before the recorder, the block is the recorder's. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef LIBRARY

void *early_block;
static int implementation(void) { return 4; }

int (*resolving(void))(void) {
    /* It is called once more while the loader relocates the program. */
    if (early_block == NULL)
        early_block = malloc(107);
    return implementation;
}
int from_library(void) __attribute__((ifunc("resolving")));
/* For this the loader calls the resolver while it relocates the library, by when it has bound
 * malloc if that is called without a slot in the PLT (-fno-plt). */
int (*early_pointer)(void) = from_library;

#else

extern int from_library(void);
extern void *early_block;

int main(void) {
    pid_t child = fork();
    /* Nothing has been allocated since the fork. */
    free(early_block);
    if (child == 0)
        _exit(from_library() - 4);
    int status = -1;
    waitpid(child, &status, 0);
    void *other = realloc(malloc(100), 200000);
    free(other);
    return status != 0 || other == NULL;
}

#endif
