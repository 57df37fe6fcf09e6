/* Blocks of which it is known what still points to them at the exit: `reachability CASE [WAY]`. WAY is how the
 * program ends: return (if nothing is given), exit, _exit, _Exit, quick_exit. Each case states how many
 * blocks of which functions are reachable and lost. Compiled without optimisation: variables are where the source
 * has them. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALONE __attribute__((noipa))

struct node {
    struct node *next;
    struct node *previous;
    long value;
};

static void *volatile global;
static __thread void *volatile of_thread;
static int ways_end(const char *way);

/* Overwrites what calls have left below the caller's frame. */
ALONE static void wipe_stack(void) {
    volatile char bytes[64 << 10];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = 0;
}

ALONE static struct node *make_node(void) {
    return calloc(1, sizeof(struct node));
}

/* A list of `length` nodes. */
ALONE static struct node *make_list(int length) {
    struct node *first = NULL;
    for (int i = 0; i < length; i++) {
        struct node *node = make_node();
        node->next = first;
        first = node;
    }
    return first;
}

/* `make_node`: 10 blocks of 24 bytes, all reachable from a variable. */
ALONE static void list(void) {
    global = make_list(10);
}

/* `make_node`: 10 blocks; nothing has the first one: 1 definitely, 9 indirectly lost. */
ALONE static void dropped(void) {
    make_list(10);
}

/* `make_node`: 5 blocks in a circle: 1 definitely, 4 indirectly lost. */
ALONE static void circle(void) {
    struct node *first = make_list(5), *last = first;
    while (last->next != NULL)
        last = last->next;
    last->next = first;
}

/* `make_node`: 6 blocks that lead to each other in both directions, and the last one to 2 more that are
 * in a circle: 1 definitely, 7 indirectly lost. */
ALONE static void both_ways(void) {
    struct node *first = make_list(6), *node = first;
    for (; node->next != NULL; node = node->next)
        node->next->previous = node;
    struct node *pair = make_list(2);
    pair->next->next = pair;
    node->next = pair;
}

/* `make_node`: 1 block that only has its own address: definitely lost. */
ALONE static void own_address(void) {
    struct node *node = make_node();
    node->next = node;
    node->previous = node;
}

ALONE static char *make_bytes(size_t size) {
    return malloc(size);
}

/* `make_bytes`: 1 block of 1000 bytes, of which a variable has an address inside: reachable. */
ALONE static void interior(void) {
    global = make_bytes(1000) + 500;
}

/* `make_bytes`: 1 block of 1008 bytes, of which a variable has the address behind its end: lost. */
ALONE static void behind(void) {
    global = make_bytes(1008) + 1008;
}

/* `make_bytes`: 1 block of 0 bytes, reachable; `make_node`: 1, definitely lost. */
ALONE static void empty(void) {
    global = make_bytes(0);
    make_node();
}

/* `make_bytes`: 1 block that only a variable of the thread has: reachable. */
ALONE static void thread_local_variable(void) {
    of_thread = make_bytes(100);
}

/* `make_bytes`: 1 block of 40 bytes, moved by `realloc` to 400,000 and 4,000,000 bytes, reachable;
 * `make_node`: 1, in it, reachable. */
ALONE static void moved(void) {
    void **block = (void **)make_bytes(40);
    block = realloc(block, 400000);
    block = realloc(block, 4000000);
    block[499999] = make_node();
    global = block;
}

/* `make_bytes`: 1 block, of which a `realloc` to a size that there is not fails: reachable. */
ALONE static void not_moved(void) {
    char *volatile block = make_bytes(40);
    if (realloc(block, (size_t)1 << 62) != NULL)
        abort();
    global = block;
}

ALONE static void *make_aligned(void) {
    return memalign(4096, 3 * 4096);
}

/* `make_aligned`: 1 block, reachable. Its second page cannot be read, and has the only address of the
 * block of `make_node`: reachable. */
ALONE static void unreadable(void) {
    char *block = make_aligned();
    *(void **)(block + 4096) = make_node();
    global = block;
    if (mprotect(block + 4096, 4096, PROT_NONE) != 0)
        abort();
}

/* `make_node`: 3 blocks whose addresses are in memory that the program has mapped and unmapped: 3 definitely
 * lost. */
ALONE static void unmapped(void) {
    void **memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 3; i++)
        memory[i] = make_node();
    munmap(memory, 1 << 20);
}

/* `make_node`: 4 blocks, a list, of which only memory that the program has mapped has the first one: possibly
 * lost. */
ALONE static void own_memory(void) {
    void **memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memory[1000] = make_list(4);
}

/* `make_node`: 2 blocks, of which only a block that was freed has the addresses: definitely lost. */
ALONE static void in_freed(void) {
    struct node *node = make_node();
    node->previous = make_node();
    node->value = (long)make_node();
    free(node);
}

/* `make_bytes`: blocks of 24 bytes, whose allocator's list of free blocks has the addresses behind them: 3 lost. */
ALONE static void before_free_memory(void) {
    char *kept = make_bytes(24);
    char *large = malloc(2000);
    char *second = make_bytes(24);
    char *other = malloc(3000);
    make_bytes(24);
    free(large);
    free(other);
    (void)kept;
    (void)second;
}

static int ready[2];

/* Has one block in a variable of its stack, and has lost another one. */
static void *waits(void *argument) {
    void *volatile held = make_bytes(100);
    make_node();
    wipe_stack();
    if (write(ready[1], "", 1) != 1)
        abort();
    for (;;)
        pause();
    return held;
}

/* `make_bytes`: 1, reachable, from the stack of a thread that waits. `make_node`: 1, possibly lost, because its
 * registers are unknown. */
ALONE static void thread_stack(void) {
    pthread_t thread;
    char byte;
    if (pipe(ready) != 0 || pthread_create(&thread, NULL, waits, NULL) != 0)
        abort();
    if (read(ready[0], &byte, 1) != 1)
        abort();
}

static void *ends(void *argument) {
    make_list(3);
    return NULL;
}

/* `make_node`: 3 blocks that a thread has lost that has ended: 1 definitely, 2 indirectly lost. */
ALONE static void thread_ended(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, ends, NULL) != 0 || pthread_join(thread, NULL) != 0)
        abort();
}

static void *ends_process(void *first) {
    while (pthread_tryjoin_np(*(pthread_t *)first, NULL) != 0)
        usleep(1000);
    make_list(2);
    wipe_stack();
    exit(0);
}

/* `make_node`: 2 blocks that a thread loses which outlives the first one: 1 definitely, 1 indirectly lost. */
ALONE static void first_thread_ended(void) {
    static pthread_t first;
    pthread_t thread;
    first = pthread_self();
    if (pthread_create(&thread, NULL, ends_process, &first) != 0)
        abort();
    pthread_exit(NULL);
}

/* `make_node`: the parent has 10, reachable, before the fork; the child loses 3 of its own (1 definitely,
 * 2 indirectly), and the parent's list too, which is not its own. */
ALONE static void forked(const char *way) {
    global = make_list(10);
    pid_t child = fork();
    if (child == 0) {
        global = NULL;
        make_list(3);
        wipe_stack();
        exit(ways_end(way));
    }
    waitpid(child, NULL, 0);
}

/* `make_node`: so many blocks in a list, reachable, and so many more, of which nothing has the first one. */
ALONE static void many(int count) {
    global = make_list(count);
    make_list(count);
}

static int ways_end(const char *way) {
    if (strcmp(way, "exit") == 0)
        exit(0);
    if (strcmp(way, "_exit") == 0)
        _exit(0);
    if (strcmp(way, "_Exit") == 0)
        _Exit(0);
    if (strcmp(way, "quick_exit") == 0)
        quick_exit(0);
    return 0;
}

/* `make_bytes`: 1, which only a variable of `main`'s stack has when it calls `exit`: reachable. */
ALONE static void from_main(const char *way) {
    char *volatile local = make_bytes(100);
    wipe_stack();
    ways_end(way);
    *local = 0;
}

/* Runs a case further in than the frame of `wipe_stack`, which does not wipe itself. */
ALONE static void run_further_in(void (*run)(void)) {
    volatile char space[1024];
    space[0] = 0;
    run();
    space[1] = 0;
}

int main(int count, char **arguments) {
    const char *name = count > 1 ? arguments[1] : "";
    const char *way = count > 2 ? arguments[2] : "";
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"list", list},
        {"dropped", dropped},
        {"circle", circle},
        {"both-ways", both_ways},
        {"own-address", own_address},
        {"interior", interior},
        {"behind", behind},
        {"empty", empty},
        {"thread-local", thread_local_variable},
        {"moved", moved},
        {"not-moved", not_moved},
        {"unreadable", unreadable},
        {"unmapped", unmapped},
        {"own-memory", own_memory},
        {"in-freed", in_freed},
        {"before-free-memory", before_free_memory},
        {"thread-stack", thread_stack},
        {"thread-ended", thread_ended},
        {"first-thread-ended", first_thread_ended},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(name, cases[i].name) == 0)
            run_further_in(cases[i].run);
    if (strcmp(name, "forked") == 0)
        forked(way);
    if (strcmp(name, "many") == 0)
        many(2000000 / 2);
    wipe_stack();
    if (strcmp(name, "from-main") == 0)
        from_main(way);
    return ways_end(way);
}
