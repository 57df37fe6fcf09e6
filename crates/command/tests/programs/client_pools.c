/* A pool that takes its arena from malloc and reports its blocks. A block may have
 * the address of its arena; both are live. */
#include "../../../target/client/include/allotrope.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static void nothing(void) {}

/* The arena and blocks of 100, 50 and 30 bytes; the first and the last have the
 * arena's address. The last is not freed. The peak is the arena, 100, 50.
 * truth same_address: allocations=4 bytes=4276 deallocations=3 leaked=1 leaked_bytes=30 peak=3 peak_bytes=4246
 */
static void same_address(void)
{
    char *arena = malloc(4096);
    allotrope_pool_allocation(arena, 100, 0);
    allotrope_pool_allocation(arena + 100, 50, 64);
    allotrope_pool_deallocation(arena);
    allotrope_pool_allocation(arena, 30, 0);
    allotrope_pool_deallocation(arena + 100);
    free(arena);
}

/* The pool resizes its block together with the arena; a second resize fails and
 * counts as nothing. Arena 4096, block 100; arena 1 MiB, block 200: four
 * allocations and four deallocations, two and two of them by reallocations. Both
 * blocks are freed before the thread's next allocation, so they are temporary; the
 * arenas are not.
 * truth resized: allocations=4 bytes=1052972 deallocations=4 reallocations=2 temporary=2 peak=2 peak_bytes=1048776
 */
static void resized(void)
{
    char *arena = malloc(4096);
    allotrope_pool_allocation(arena, 100, 0);
    uint64_t token = allotrope_pool_reallocation_start(arena);
    arena = realloc(arena, 1 << 20);
    allotrope_pool_reallocation_end(token, arena, 200);
    token = allotrope_pool_reallocation_start(arena);
    allotrope_pool_reallocation_end(token, NULL, (size_t)1 << 40);
    allotrope_pool_deallocation(arena);
    free(arena);
}

/* With null blocks, only the reallocation that succeeds counts: as an allocation.
 * truth null_blocks: allocations=1 bytes=24 leaked=1 leaked_bytes=24 peak=1 peak_bytes=24
 */
static void null_blocks(void)
{
    static char block[24];
    allotrope_pool_allocation(NULL, 10, 0);
    allotrope_pool_deallocation(NULL);
    allotrope_pool_reallocation_end(allotrope_pool_reallocation_start(NULL), NULL, 24);
    allotrope_pool_reallocation_end(allotrope_pool_reallocation_start(NULL), block, 24);
    allotrope_pool_reallocation_end(0, block, 24);
}

enum { THREADS = 4, ROUNDS = 5000 };
static void *_Atomic shared;

/* Each round carves one block from one arena that another thread may free:
 * ROUNDS arenas of 64 bytes, ROUNDS blocks of 8 a thread. */
__attribute__((noinline)) static void *carve(void *unused)
{
    for (int round = 0; round < ROUNDS; round++) {
        void *arena = malloc(64);
        allotrope_pool_allocation(arena, 8, 0);
        allotrope_pool_deallocation(arena);
        free(atomic_exchange(&shared, arena));
    }
    return unused;
}

static void threads(void)
{
    pthread_t running[THREADS];
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&running[i], NULL, carve, NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(running[i], NULL);
    }
    free(shared);
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"nothing", nothing},         {"same_address", same_address},
        {"resized", resized},         {"null_blocks", null_blocks},
        {"threads", threads},
    };
    for (size_t i = 0; count > 1 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(arguments[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    }
    return 1;
}
