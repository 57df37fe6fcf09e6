/* The program's own, strong, reference to dlsym is none of the header's
 * business: a statically linked program must still get it. */
#include "allotrope.h"

#include <dlfcn.h>
#include <stdio.h>

void calls_of_another_unit(void);

int main(void)
{
    void *(*volatile function)(void *, const char *) = dlsym;
    calls_of_another_unit();
    printf("dlsym %d, window %d\n", function != NULL, (int)allotrope_open("own", 1, 0));
    return 0;
}
