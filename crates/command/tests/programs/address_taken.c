/* Takes the address of malloc and free and calls them through it,
 * and directly. Linked at a fixed address (-fno-pie -no-pie), the executable's
 * symbol table has an entry for each, which is no definition.
 *
 * through_pointer: 30 blocks of 10 bytes; direct: 20 blocks of 20 bytes.
 *
 * 50 allocations, 700 bytes.
 */
#include <stdlib.h>

void *(*volatile take)(size_t);
void (*volatile give)(void *);

__attribute__((noinline)) void through_pointer(void) {
    for (int i = 0; i < 30; i++)
        give(take(10));
}

__attribute__((noinline)) void direct(void) {
    for (int i = 0; i < 20; i++)
        free(malloc(20));
}

int main(void) {
    take = malloc;
    give = free;
    through_pointer();
    direct();
    return 0;
}
