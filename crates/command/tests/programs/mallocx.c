/* jemalloc's own calls, found at run time; exits 77 where there are none.
 *
 * truth sized: sized makes 30 allocations of 24 bytes by mallocx and frees
 * them, 10 by dallocx and 20 by sdallocx.
 * truth grown: grown makes one of 100 bytes by mallocx, which rallocx replaces
 * by one of 5000 bytes (two allocations), and frees that.
 * truth aligned: aligned makes 5 of 48 bytes, aligned to 4096, that stay.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static void *volatile sink;
static void *(*mallocx_)(size_t, int);
static void *(*rallocx_)(void *, size_t, int);
static void (*dallocx_)(void *, int);
static void (*sdallocx_)(void *, size_t, int);

#define ALONE __attribute__((noinline, noclone))

ALONE static void sized(void) {
    for (int i = 0; i < 30; i++) {
        sink = mallocx_(24, 0);
        if (i < 10)
            dallocx_(sink, 0);
        else
            sdallocx_(sink, 24, 0);
    }
}

ALONE static void grown(void) {
    sink = mallocx_(100, 0);
    sink = rallocx_(sink, 5000, 0);
    dallocx_(sink, 0);
}

ALONE static void aligned(void) {
    for (int i = 0; i < 5; i++) {
        sink = mallocx_(48, 12); /* MALLOCX_LG_ALIGN(12) */
        if ((uintptr_t)sink % 4096 != 0)
            exit(3);
    }
}

int main(void) {
    *(void **)&mallocx_ = dlsym(RTLD_DEFAULT, "mallocx");
    *(void **)&rallocx_ = dlsym(RTLD_DEFAULT, "rallocx");
    *(void **)&dallocx_ = dlsym(RTLD_DEFAULT, "dallocx");
    *(void **)&sdallocx_ = dlsym(RTLD_DEFAULT, "sdallocx");
    if (!mallocx_ || !rallocx_ || !dallocx_ || !sdallocx_)
        return 77;
    sized();
    grown();
    aligned();
    return 0;
}
