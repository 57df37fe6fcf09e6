/* Opens deep_library.c with RTLD_DEEPBIND; program and library make 300 blocks each,
 * which are never freed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

static void *volatile block;

__attribute__((noinline)) static void program_makes(void) { block = malloc(30); }

int main(int count, char **arguments) {
    void *library = dlopen(arguments[1], RTLD_LAZY | RTLD_DEEPBIND);
    if (library == 0)
        return 3;
    void *(*makes)(size_t) = dlsym(library, "library_makes");
    for (int i = 0; i < 300; i++) {
        block = makes(20);
        program_makes();
    }
    return 0;
}
