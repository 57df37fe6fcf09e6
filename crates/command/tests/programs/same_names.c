// Two functions named `spin` (nested functions of GNU C, whose symbols are `spin.0` and `spin.1`),
// each called by one of `first` and `second` for a quarter of a second; `little` is inlined into both.
// `caller` has hardly any instructions of its own, and `never` is not called.
#include <time.h>

#define OUT_OF_LINE __attribute__((noinline, noclone))

volatile long sum;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

__attribute__((always_inline)) static inline void little(long i) {
    sum += i * 3; // MARK little
    sum ^= i;
}

OUT_OF_LINE static void first(long rounds) {
    OUT_OF_LINE void spin(long n) {
        for (long i = 0; i < n; i++) {
            little(i);
        }
    }
    spin(rounds);
}

OUT_OF_LINE static void second(long rounds) {
    OUT_OF_LINE void spin(long n) {
        for (long i = n; i > 0; i--) {
            little(i);
        }
    }
    spin(rounds);
}

OUT_OF_LINE void caller(void) {
    for (double end = now() + 0.5; now() < end;) {
        first(1000000);
        second(1000000);
    }
}

OUT_OF_LINE void never(void) {
    sum++;
}

int main(int argc, char **argv) {
    caller();
    if (argc > 100) {
        never();
    }
    return 7;
}
