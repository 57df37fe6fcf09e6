/* What is live at the peak: ten blocks of 4,000 bytes from `keep`, one of 100,000 bytes and a
 * hundred of 10 bytes from `main`. The large one is freed, then the ten; the hundred leak. */
#include <stdlib.h>

#define NOINLINE __attribute__((noinline))

static void *volatile sink;

static NOINLINE void *allocate(size_t size)
{
    void *block = malloc(size);
    sink = block;
    return block;
}

static NOINLINE void *keep(void)
{
    void *block = allocate(4000);
    sink = block;
    return block;
}

int main(void)
{
    void *kept[10];
    for (int i = 0; i < 10; i++)
        kept[i] = keep();
    void *large = allocate(100000);
    for (int i = 0; i < 100; i++)
        allocate(10);
    free(large);
    for (int i = 0; i < 10; i++)
        free(kept[i]);
    return 0;
}
