/* Reports an allocator of its own by the calls of docs/client-abi.md, found with
 * dlsym. Calls of malloc and free inside a reported call are not recorded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t (*enter)(void);
static void (*allocation)(uint64_t, const void *, size_t, size_t);
static uint64_t (*deallocation)(const void *);
static void (*leave)(uint64_t);
static uint64_t (*reallocation_start)(const void *);
static void (*reallocation_end)(uint64_t, const void *, const void *, size_t);

/* An allocator on top of malloc: 16 bytes before each block, and a scratch block in
 * each call. */
static void *own_malloc(size_t size)
{
    uint64_t token = enter();
    free(malloc(100));
    char *block = size < 1000000 ? malloc(size + 16) : NULL;
    block = block ? block + 16 : NULL;
    allocation(token, block, size, 0);
    return block;
}

static void own_free(char *block)
{
    uint64_t token = deallocation(block);
    free(malloc(100));
    free(block - 16);
    leave(token);
}

static char *own_realloc(char *block, size_t size)
{
    uint64_t token = reallocation_start(block);
    char *result = size < 1000000 ? realloc(block - 16, size + 16) : NULL;
    result = result ? result + 16 : NULL;
    reallocation_end(token, block, result, size);
    return result;
}

static void nothing(void) {}

/* Three calls that succeed (20, 50 and 70 bytes), two that fail, one block freed;
 * then 25 bytes of malloc, recorded as usual. The block of 50 is resized at once
 * and the one of 70 freed at once, so both are temporary.
 * truth counted: allocations=4 bytes=165 deallocations=2 reallocations=1 temporary=2 leaked=2 leaked_bytes=45 peak=2 peak_bytes=90
 */
static void counted(void)
{
    own_malloc(20);
    own_malloc(1000000);
    char *block = own_malloc(50);
    block = own_realloc(block, 70);
    own_realloc(block, 1000000);
    own_free(block);
    malloc(25);
}

/* A call within a call, as of an allocator that uses itself, is part of the outer
 * one, deallocations too.
 * truth nested: allocations=1 bytes=10 leaked=1 leaked_bytes=10 peak=1 peak_bytes=10
 */
static void nested(void)
{
    uint64_t token = enter();
    own_free(own_realloc(own_malloc(30), 40));
    static char block[10];
    allocation(token, block, sizeof block, 0);
}

static jmp_buf back;

__attribute__((noinline)) static void jump_out(void)
{
    enter();
    malloc(1);
    longjmp(back, 1);
}

/* A call that is left by a jump has ended: what follows is recorded.
 * truth left_by_a_jump: allocations=3 bytes=35 leaked=3 leaked_bytes=35 peak=3 peak_bytes=35
 */
static void left_by_a_jump(void)
{
    for (volatile int round = 0; round < 3; round++) {
        if (setjmp(back) == 0) {
            jump_out();
        }
    }
    malloc(5);
    own_malloc(20);
    malloc(10);
}

/* A child that is forked within a call is within it; the parent still is, too.
 * truth forked: allocations=2 bytes=17 leaked=2 leaked_bytes=17 peak=2 peak_bytes=17
 */
static void forked(void)
{
    uint64_t token = enter();
    static char block[10];
    if (fork() == 0) {
        malloc(1);
        _exit(0);
    }
    wait(NULL);
    allocation(token, block, sizeof block, 0);
    malloc(7);
}

static void *find(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    if (!found) {
        fprintf(stderr, "no %s\n", name);
        exit(2);
    }
    return found;
}

int main(int count, char **arguments)
{
    enter = find("allotrope_allocator_enter");
    allocation = find("allotrope_allocator_allocation");
    deallocation = find("allotrope_allocator_deallocation");
    leave = find("allotrope_allocator_leave");
    reallocation_start = find("allotrope_allocator_reallocation_start");
    reallocation_end = find("allotrope_allocator_reallocation_end");
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        {"nothing", nothing},
        {"counted", counted},
        {"nested", nested},
        {"left_by_a_jump", left_by_a_jump},
        {"forked", forked},
    };
    for (size_t i = 0; count > 1 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(arguments[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    }
    return 1;
}
