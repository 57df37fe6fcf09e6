// A program in two versions: -DAFTER adds one allocation site, `planted`, and
// changes nothing else. Its numbers are the truth that `diff` has to find.
//
//   site              before     after     bytes each
//   steady               500       500             24
//   grown                999      1001             16
//   planted (AFTER)        0       700             40
#include <stdlib.h>

#define STEADY 500
#define GROWN_BEFORE 999
#define GROWN_AFTER 1001
#define PLANTED 700

__attribute__((noinline)) static void *steady(void) { return malloc(24); }
__attribute__((noinline)) static void *grown(void) { return malloc(16); }
#ifdef AFTER
__attribute__((noinline)) static void *planted(void) { return malloc(40); } // MARK planted
#endif

__attribute__((noinline)) static void times(int n, void *(*allocate)(void)) {
    for (int i = 0; i < n; i++)
        free(allocate());
}

int main(void) {
    times(STEADY, steady);
#ifdef AFTER
    times(GROWN_AFTER, grown);
    times(PLANTED, planted);
#else
    times(GROWN_BEFORE, grown);
#endif
    return 0;
}
