/* `grab` only passes requests on: eight callers choose the size. `make_node` has
 * eight callers, too, but always allocates 48 bytes: it is what allocates. */
#include <stdlib.h>

static volatile void *sink;

__attribute__((noinline)) static void *grab(size_t size) {
    void *block = malloc(size); /* MARK grab */
    sink = block;
    return block;
}

__attribute__((noinline)) static void *make_node(void) {
    void *block = malloc(48); /* MARK node */
    sink = block;
    return block;
}

#define CALLER(n)                                                     \
    __attribute__((noinline)) static void caller_##n(void) {          \
        sink = grab(10000 + 100 * n);                                 \
        sink = make_node();                                           \
    }
CALLER(1)
CALLER(2)
CALLER(3)
CALLER(4)
CALLER(5)
CALLER(6)
CALLER(7)
CALLER(8)

int main(void) {
    caller_1(), caller_2(), caller_3(), caller_4();
    caller_5(), caller_6(), caller_7(), caller_8();
    return 0;
}
