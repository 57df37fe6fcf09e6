/* The program refers to dlsym itself. This reference must stay strong although the
 * header's is weak: a statically linked program must still get dlsym. */
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
