/* Prints whether the kernel made its loader distrust the environment. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

int main(void) {
    free(malloc(11));
    puts(getauxval(AT_SECURE) ? "distrusted" : "trusted");
    return 5;
}
