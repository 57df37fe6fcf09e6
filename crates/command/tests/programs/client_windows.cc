// Opens windows through allotrope.h. Each measured call allocates `iterations`
// blocks of 8 bytes and keeps one in ten.
#include "../../../target/client/include/allotrope.h"

#include <cstdlib>

static void *volatile kept;

__attribute__((noinline)) static int work(int iterations)
{
    for (int i = 0; i < iterations; i++) {
        void *block = std::malloc(8);
        if (i % 10 == 0) {
            kept = block;
        } else {
            std::free(block);
        }
    }
    return iterations;
}

static void measured(void *context) { work(*static_cast<int *>(context)); }

int main()
{
    int iterations = 30;
    // Two calls to warm up, three windows.
    allotrope_measure("protocol", 2, 3, 30, measured, &iterations);
    // One window.
    allotrope::measure("lambda", 40, [&] { return work(40); });
    {
        allotrope::window outer("outer", 1, ALLOTROPE_THIS_THREAD);
        work(5);
        allotrope::opted_out out;
        work(7);
    }
    return allotrope_recording() == ALLOTROPE_RECORDS_STACKS ? 0 : 1;
}
