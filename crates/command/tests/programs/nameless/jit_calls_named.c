// JIT code calls a function with a name, which allocates.
// STRIP none
// LIBRARY plugin.so
// HEAD allocates
#include "host.h"

#ifdef LIBRARY
void run(void) {}
#else
typedef void *jit_function(size_t, void *(*)(size_t));

NOINLINE static void *allocates(size_t size) {
    void *block = malloc(size);
    sink++;
    return block;
}

int main(int argc, char **argv) {
    jit_function *code = (jit_function *)jit_code();
    for (int i = 0; i < 300; i++) free(code(48, allocates));
    return argc != 2;
}
#endif
