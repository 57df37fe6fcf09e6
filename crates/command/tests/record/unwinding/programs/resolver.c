/* A function of a library whose resolver (ifunc) allocates; it is bound when it is
 * called. */
#include "truth.h"

extern int from_library(void);
extern void *library_block;

int main(void) {
    int result = from_library() - 4;
    free(library_block);
    EXPECT(1, 107, "plugin_resolving main _start");
    return result;
}
