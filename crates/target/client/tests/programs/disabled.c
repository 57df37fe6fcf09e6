/* Compiled with ALLOTROPE_DISABLE; the same code as on unsupported systems. */
#include "allotrope.h"

#include <stdio.h>

static void count(void *context) { (*(int *)context)++; }

int main(void)
{
    int calls = 0;
    allotrope_measure("measured", 2, 3, 7, count, &calls);
    allotrope_pool_allocation(&calls, sizeof calls, 0);
    printf("called %d times, window %d, quiet %u\n", calls, (int)allotrope_open("x", 1, 0),
           allotrope_quiet(1, 1));
    return 0;
}
