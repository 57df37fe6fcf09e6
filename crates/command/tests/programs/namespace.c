/* Opens two libraries in namespaces of their own, and one in the program's. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

int main(void) {
    if (!dlmopen(LM_ID_NEWLM, "libm.so.6", RTLD_NOW))
        return 1;
    if (!dlmopen(LM_ID_NEWLM, "libresolv.so.2", RTLD_NOW))
        return 1;
    if (!dlmopen(LM_ID_BASE, "libm.so.6", RTLD_NOW))
        return 2;
    free(malloc(13));
    return 0;
}
