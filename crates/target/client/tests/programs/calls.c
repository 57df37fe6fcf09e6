/* Calls everything in the header at least once and prints the results. The calls
 * that the recorder's stand-in must log are in tests/header.rs, as CALLS. */
#include "allotrope.h"

#include <stdio.h>

void calls_of_another_unit(void);

static void count(void *context)
{
    int *calls = context;
    (*calls)++;
}

int main(void)
{
    int calls = 0;
    uint32_t recording = allotrope_recording();
    uint64_t window = allotrope_open("encode", 1000, ALLOTROPE_THIS_THREAD);
    uint64_t token;
    allotrope_window_close(window, ALLOTROPE_WAIT_FOR_QUIET);
    window = allotrope_window_open("truncated", 5, 0, ALLOTROPE_COMPARE_DESCRIPTORS);
    allotrope_window_close(window, 0);
    allotrope_opt_out(1);
    allotrope_opt_out(0);
    allotrope_pool_allocation((const void *)0x1000, 24, 64);
    token = allotrope_pool_reallocation_start((const void *)0x1000);
    allotrope_pool_reallocation_end(token, (const void *)0x2000, 48);
    allotrope_pool_deallocation((const void *)0x2000);
    allotrope_measure("measured", 2, 3, 7, count, &calls);
    calls_of_another_unit();
    printf("recording %u, quiet %u, called %d times\n", recording, allotrope_quiet(20, 100), calls);
    return 0;
}
