// Allocates TIMES blocks in `main`.
#include <stdlib.h>

int main(void) {
    for (int i = 0; i < TIMES; i++) free(malloc(24));
    return 0;
}
