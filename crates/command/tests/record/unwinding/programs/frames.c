/* Frames of every shape that compilers make; built with many compilers and
 * flags. The truth is printed, see truth.h. */
#include "truth.h"

#include <string.h>

#define TIMES 20

/* A frame that moves its stack pointer by the argument. */
ALONE static void moving(size_t bytes) {
    volatile char *area = (volatile char *)__builtin_alloca(bytes);
    area[bytes - 1] = 1;
    allocate(3);
    area[0] = 1;
}

/* An array of variable length. */
ALONE static int variable(int count) {
    volatile int numbers[count];
    numbers[count - 1] = 1;
    moving((size_t)count);
    allocate(5);
    return numbers[count - 1];
}

/* A realigned stack; with arguments on it, of a number that varies. */
ALONE static int aligned(int count, ...) {
    _Alignas(64) volatile char area[128];
    __builtin_va_list arguments;
    __builtin_va_start(arguments, count);
    int first = __builtin_va_arg(arguments, int);
    area[0] = (char)first;
    allocate(7);
    variable(count + first);
    __builtin_va_end(arguments);
    return area[0];
}

/* Both at once. */
ALONE static int aligned_and_moving(size_t bytes) {
    _Alignas(64) volatile char area[64];
    volatile char *more = (volatile char *)__builtin_alloca(bytes);
    area[0] = more[bytes - 1] = 1;
    aligned((int)bytes, 2);
    return area[0] + more[bytes - 1];
}

/* Arguments on the stack, and all registers that a callee saves in use. */
ALONE static long many(long a, long b, long c, long d, long e, long f, long g, long h) {
    allocate(11);
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h +
           aligned_and_moving((size_t)(a + h)) + a * h;
}

/* A large frame, which is set up in steps. */
ALONE static long large(long number) {
    volatile char area[300000];
    area[0] = area[sizeof area - 1] = 1;
    return many(number, 1, 2, 3, 4, 5, 6, number) + area[0];
}

/* One of two ways; the unlikely one may be moved far away. */
ALONE static long unlikely(int number) {
    if (__builtin_expect(number % 2, 0)) {
        allocate(13);
        return large(number + 1);
    }
    allocate(17);
    return 1;
}

/* Mutual recursion: two frames for each turn. */
static long odd(int number);
ALONE static long even(int number) {
    return number == 0 ? unlikely(1) + 1 : odd(number - 1) + 2;
}
ALONE static long odd(int number) { return even(number - 1) + 3; }

int main(void) {
    for (int i = 0; i < TIMES; i++) {
        even(4);
        unlikely(2);
    }
#define OUTSIDE " unlikely even odd even odd even main _start"
    EXPECT(TIMES, 3 * TIMES, "allocate moving variable aligned aligned_and_moving many large" OUTSIDE);
    EXPECT(TIMES, 5 * TIMES, "allocate variable aligned aligned_and_moving many large" OUTSIDE);
    EXPECT(TIMES, 7 * TIMES, "allocate aligned aligned_and_moving many large" OUTSIDE);
    EXPECT(TIMES, 11 * TIMES, "allocate many large" OUTSIDE);
    EXPECT(TIMES, 13 * TIMES, "allocate" OUTSIDE);
    EXPECT(TIMES, 17 * TIMES, "allocate unlikely main _start");
    return 0;
}
