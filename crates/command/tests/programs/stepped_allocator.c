// An allocator for `allotrope paths`: blocks come from one mapping and are never used again,
// so that each operation takes one path. Macros add work whose instructions can be counted:
//   -DMALLOC_NOPS=N, -DFREE_NOPS=N: N more instructions in each call
//   -DFREE_ASKS: each free asks the environment
//   -DFREE_LOCKS: one locked instruction in each free
//   -DFREE_CALLS: one system call in each free
//   -DFREE_IN_ASSEMBLY: free is 41 nop and a ret
//   -DSLOW_EVERY=N: each N-th malloc repeats 5000 times an empty loop
//   -DLACKS_REALLOC: it has no realloc
//   -DTIMER=SIGNAL: SIGNAL comes each 100 microseconds from the start on; SIGALRM has a handler
//   -DFREE_RAISES=SIGNAL: each free sends itself SIGNAL; 0 sends none, with as many instructions
//   -DFORKS=PATH: at the start it forks a process, which forks another one in a session of its own;
//     both write a line with their number to PATH and wait for ever
//   -DFREE_HANGS: each free waits for ever
//   -DFREE_TRAPS: each free executes int3
//   -DFREE_EXITS: each free ends the process with status 3
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TEXT(x) #x
#define NOPS(n) __asm__ volatile(".rept " TEXT(n) "\n nop\n .endr")
#ifndef MALLOC_NOPS
#define MALLOC_NOPS 0
#endif
#ifndef FREE_NOPS
#define FREE_NOPS 0
#endif

static char *next, *end;
static long lock;

#ifdef FORKS
// Before the replay: nothing of this is counted.
__attribute__((constructor)) static void start_processes(void) {
    int ends[2];
    char byte;
    if (pipe(ends)) {
        abort();
    }
    if (fork() == 0) {
        int is_inner = fork() == 0;
        if (is_inner) {
            setsid();
        }
        int file = open(FORKS, O_WRONLY | O_CREAT | O_APPEND, 0600);
        dprintf(file, "%d\n", getpid());
        close(file);
        if (write(ends[1], "", 1) != 1) {
            abort();
        }
        for (;;) {
            pause();
        }
    }
    // Both have written.
    if (read(ends[0], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1) {
        abort();
    }
    close(ends[0]);
    close(ends[1]);
}
#endif

#ifdef TIMER
static void handler(int signal) {
    (void)signal;
    NOPS(1000);
}

__attribute__((constructor)) static void start_timer(void) {
    signal(SIGALRM, handler);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = TIMER};
    struct itimerspec often = {{0, 100000}, {0, 100000}};
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &often, NULL)) {
        abort();
    }
}
#endif

#ifdef FREE_RAISES
// Read from memory, so that the code is the same for each signal.
static volatile long raised = FREE_RAISES;
#endif

static inline long call(long number, long a, long b, long c) {
    long result = number;
    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
}

static void *take(size_t size) {
    size = (size + 31) & ~(size_t)15;
    if ((size_t)(end - next) < size) {
        size_t bytes = (size_t)1 << 30;
        next = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        end = next + bytes;
    }
    char *block = next;
    next += size;
    *(size_t *)block = size - 16;
    return block + 16;
}

#ifdef SLOW_EVERY
static void slow(void) {
    static long calls;
    if (++calls % SLOW_EVERY == 0) {
        for (int i = 0; i < 5000; i++) {
            __asm__ volatile("");
        }
    }
}
#else
#define slow()
#endif

void *malloc(size_t size) {
    NOPS(MALLOC_NOPS);
    slow();
    return take(size);
}

#ifdef FREE_IN_ASSEMBLY
__asm__(".globl free\n.type free, @function\nfree: .rept 41\n nop\n .endr\n ret\n"
        ".size free, . - free");
#else
void free(void *pointer) {
    (void)pointer;
    NOPS(FREE_NOPS);
#ifdef FREE_ASKS
    if (getenv("NO_SUCH_VARIABLE") != NULL) { // MARK asks
        abort();
    }
#endif
#ifdef FREE_LOCKS
    __asm__ volatile("lock incq %0" : "+m"(lock));
#endif
#ifdef FREE_RAISES
    call(SYS_tgkill, call(SYS_getpid, 0, 0, 0), call(SYS_gettid, 0, 0, 0), raised);
#endif
#ifdef FREE_HANGS
    for (;;) {
        pause();
    }
#endif
#ifdef FREE_TRAPS
    __asm__ volatile("int3");
#endif
#ifdef FREE_EXITS
    call(SYS_exit_group, 3, 0, 0);
#endif
#ifdef FREE_CALLS
    long result = 110; // getppid
    __asm__ volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
#endif
}
#endif

void *calloc(size_t count, size_t size) {
    return take(count * size);
}

#ifndef LACKS_REALLOC
void *realloc(void *pointer, size_t size) {
    char *other = take(size);
    if (pointer != NULL) {
        size_t old = ((size_t *)pointer)[-2];
        for (size_t i = 0; i < old && i < size; i++) {
            other[i] = ((char *)pointer)[i];
        }
    }
    return other;
}
#endif

void *aligned_alloc(size_t alignment, size_t size) {
    char *block = take(size + alignment);
    return block + (alignment - (size_t)block % alignment) % alignment;
}
