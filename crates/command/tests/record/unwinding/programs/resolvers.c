/* Resolvers that allocate while the loader relocates: the program's own, and
 * that of a library which the loader relocates before the recorder. */
#include "truth.h"

extern int from_library(void);
extern void *library_block;

static void *block;
static int implementation(void) { return 3; }

ALONE int (*resolving(void))(void) {
    block = malloc(103);
    NO_TAIL_CALL;
    return implementation;
}
int chosen(void) __attribute__((ifunc("resolving")));

int main(void) {
    int result = chosen() + from_library() - 7;
    free(block);
    free(library_block);
    /* The loader calls them, so no frame of the program is outside of them. */
    EXPECT(1, 103, "resolving");
    EXPECT(1, 107, "plugin_resolving");
    return result;
}
