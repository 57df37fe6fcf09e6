// JIT code allocates for the program.
// STRIP none
// LIBRARY plugin.so
// HEAD 0x
#include "host.h"

#ifdef LIBRARY
void run(void) {}
#else
typedef void *jit_function(size_t, void *(*)(size_t));

NOINLINE static void work(jit_function *code) {
    for (int i = 0; i < 300; i++) free(code(48, malloc));
    sink++;
}

int main(int argc, char **argv) {
    work((jit_function *)jit_code());
    return argc != 2;
}
#endif
