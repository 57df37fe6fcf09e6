/* Call stacks whose every frame is known: function, file, line, column.
 * `attribution CASE`; the tests find the lines by their marks. */
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define ALONE __attribute__((noipa))

static void *volatile sink;
/* Not known to the compiler: it would write the loop out as three calls. */
static volatile int three = 3;

/* 3 blocks of 11 bytes by way of middle, 2 of 13 bytes directly from outer. */
ALONE static void leaf(size_t bytes) {
    sink = malloc(bytes); /* MARK leaf */
}

ALONE static void middle(void) {
    for (int i = three; i > 0; i--)
        leaf(11); /* MARK middle */
}

ALONE static void outer(void) {
    middle(); /* MARK outer-middle */
    leaf(13); /* MARK outer-first */
    leaf(13); /* MARK outer-second */
}

/* One block of 17 bytes under `depth` + 1 frames of this function. */
ALONE static void recurse(int depth) {
    if (depth == 0)
        sink = malloc(17);
    else
        recurse(depth - 1);
    __asm__ volatile("");
}

/* A frame that moves its stack pointer by the argument, and one that
 * aligns its stack. One block of 19 bytes. */
ALONE static void moving(size_t bytes) {
    volatile char *area = __builtin_alloca(bytes);
    area[bytes - 1] = 1;
    leaf(19);
    area[0] = 1;
}

ALONE static void aligned(size_t bytes) {
    volatile char area[64] __attribute__((aligned(64)));
    area[0] = 1;
    moving(bytes);
    area[63] = (char)((uintptr_t)area & 63);
}

/* A callback below the C library's qsort: 23 bytes, once. */
ALONE static int compare(const void *left, const void *right) {
    static int calls;
    if (calls++ == 0)
        leaf(23);
    return *(const int *)left - *(const int *)right;
}

ALONE static void sorting(void) {
    int numbers[2] = {2, 1};
    qsort(numbers, 2, sizeof *numbers, compare);
    __asm__ volatile("");
}

/* A handler on an alternate stack: 29 bytes, under `raising`. */
ALONE static void handler(int number) {
    (void)number;
    leaf(29);
}

ALONE static void raising(void) {
    static char area[64 * 1024];
    stack_t alternate = {.ss_sp = area, .ss_size = sizeof area};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_ONSTACK;
    sigaltstack(&alternate, NULL);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    __asm__ volatile("");
}

/* After a longjmp out of three frames: 31 bytes in `after_jump`. */
static jmp_buf landing;

ALONE static void jump(int depth) {
    leaf(7);
    if (depth > 0)
        jump(depth - 1);
    else
        longjmp(landing, 1);
    __asm__ volatile("");
}

ALONE static void after_jump(void) {
    leaf(31);
}

ALONE static void jumping(void) {
    if (setjmp(landing) == 0)
        jump(2);
    else
        after_jump();
    __asm__ volatile("");
}

/* On a stack of its own, whose outermost frame is the C library's start of a
 * context: 37 bytes in `coroutine`. */
static ucontext_t main_context, coroutine_context;

ALONE static void coroutine(void) {
    leaf(37);
}

ALONE static void switching(void) {
    size_t bytes = 64 * 1024;
    char *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getcontext(&coroutine_context);
    coroutine_context.uc_stack.ss_sp = area;
    coroutine_context.uc_stack.ss_size = bytes;
    coroutine_context.uc_link = &main_context;
    makecontext(&coroutine_context, coroutine, 0);
    swapcontext(&main_context, &coroutine_context);
    __asm__ volatile("");
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "chain") == 0)
        outer(); /* MARK main-outer */
    else if (strcmp(name, "recurse") == 0)
        recurse(atoi(argv[2]));
    else if (strcmp(name, "aligned") == 0)
        aligned(1000 + (size_t)argc);
    else if (strcmp(name, "qsort") == 0)
        sorting();
    else if (strcmp(name, "signal") == 0)
        raising();
    else if (strcmp(name, "longjmp") == 0)
        jumping();
    else if (strcmp(name, "context") == 0)
        switching();
    else
        return 98;
    return 0;
}
