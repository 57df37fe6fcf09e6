/* A call of the allocator that a signal interrupts at each instruction of the
 * recorder in turn. `interrupted HANDLER CALL`.
 *
 * A parent steps its child through the call, one instruction at a time, and sends
 * the signal after k instructions of the recorder; with the next call k is STRIDE
 * more (1 unless the environment sets another), until a call has ended before the
 * kth.
 *
 * HANDLER: `returns` (it allocates and comes back), `jumps` (it allocates and
 * leaves by siglongjmp) or `unwinds` (it allocates and leaves as in a thread that
 * is cancelled asynchronously: all frames are unwound, and the destructors that
 * they have would run; here up to the caller). CALL: `malloc`, `free`, `realloc`;
 * with `cold_` before it, the recorder has just dropped its cached unwind rules. */
#include "truth.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unwind.h>

/* Shared by tracer and child. */
static struct shared {
    volatile int in_call; /* the child is between the call's begin and end */
    volatile int over;    /* the tracer has interrupted every instruction */
    volatile long interrupted;
} *shared;

static uintptr_t recorder_start, recorder_end;

static int find_recorder(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size, (void)data;
    if (!strstr(info->dlpi_name, "recorder"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            recorder_start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            recorder_end = recorder_start + info->dlpi_phdr[i].p_memsz;
        }
    return 1;
}

static sigjmp_buf landing;
static int jumps, unwinds;
static volatile long handled;
/* Unwindings that ended before the caller. */
static volatile long ended_early;

static void one_call(const char *call, int cold);

/* Called for each frame on the way out. */
static _Unwind_Reason_Code at_frame(int version, _Unwind_Action actions,
                                    _Unwind_Exception_Class class,
                                    struct _Unwind_Exception *exception,
                                    struct _Unwind_Context *context, void *data) {
    (void)version, (void)class, (void)exception, (void)data;
    if (_Unwind_GetRegionStart(context) == (uintptr_t)one_call)
        siglongjmp(landing, 1);
    if (actions & _UA_END_OF_STACK) {
        ended_early++;
        siglongjmp(landing, 1);
    }
    return _URC_NO_REASON;
}

ALONE static void handler(int number) {
    (void)number;
    allocate(61);
    handled++;
    if (unwinds) {
        static struct _Unwind_Exception exception;
        memset(&exception, 0, sizeof exception);
        _Unwind_ForcedUnwind(&exception, at_frame, NULL);
        /* It comes back only if it cannot go on. */
        ended_early++;
    }
    if (jumps)
        siglongjmp(landing, 1);
}

static void *volatile block;

ALONE static void calling(const char *call) {
    shared->in_call = 1;
    if (strcmp(call, "malloc") == 0)
        block = malloc(67);
    else if (strcmp(call, "free") == 0)
        free(block);
    else
        block = realloc(block, 5000);
    shared->in_call = 0;
}

ALONE static void afterwards(void) {
    allocate(71);
    NO_TAIL_CALL;
}

/* Unloads a library: after this the recorder looks all code up again. */
ALONE static void forgetting(void) {
    dlclose(dlopen(getenv("PLUGIN"), RTLD_NOW));
    NO_TAIL_CALL;
}

/* In the child: one call. Which of them have completed is known only if the
 * handler returns. */
ALONE static void one_call(const char *call, int cold) {
    int allocates = strcmp(call, "malloc") == 0;
    if (!allocates)
        block = malloc(73);
    if (cold)
        forgetting();
    /* Stops here until the tracer steps on. */
    syscall(SYS_tgkill, getpid(), getpid(), SIGSTOP);
    if (sigsetjmp(landing, 1) == 0) {
        calling(call);
        if (strcmp(call, "free") != 0)
            free(block);
    }
    shared->in_call = 0;
    afterwards();
}

ALONE static int child(const char *call, int cold) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    sigaction(SIGUSR1, &action, NULL);
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    long calls = 0;
    for (; !shared->over; calls++)
        one_call(call, cold);
    if (handled != shared->interrupted)
        return 3;
    if (ended_early != 0) {
        truth_say("%ld of %ld unwindings ended too early\n", ended_early, (long)handled);
        return 4;
    }
    /* The call that is stepped through without a signal ends the loop. */
    truth_say("calls %ld interrupted %ld\n", calls, (long)handled);
    EXPECT(calls, 71 * calls, "allocate afterwards one_call child main _start");
    if (strcmp(call, "malloc") != 0)
        EXPECT(calls, 73 * calls, "one_call child main _start");
    if (jumps) {
        /* Left before it was complete or after; the test knows the bounds. */
        EXPECT_OTHERS("calling");
    } else {
        if (strcmp(call, "malloc") == 0)
            EXPECT(calls, 67 * calls, "calling one_call child main _start");
        if (strcmp(call, "realloc") == 0)
            EXPECT(calls, 5000 * calls, "calling one_call child main _start");
    }
    EXPECT_UNDER(handled, "handler");
    EXPECT_OTHERS("forgetting");
    return 0;
}

static int in_recorder(pid_t pid) {
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, pid, NULL, &registers) != 0)
        abort();
    return registers.rip - recorder_start < recorder_end - recorder_start;
}

/* Waits for the next stop; returns its signal, or -1 if the child has ended. */
static int next_stop(pid_t pid, int *status) {
    while (waitpid(pid, status, 0) < 0)
        if (errno != EINTR)
            abort();
    return WIFSTOPPED(*status) ? WSTOPSIG(*status) : -1;
}

/* Steps through one call; interrupts it at the kth instruction of the recorder.
 * Returns how many of these it stepped through. */
static long step_through(pid_t pid, long k, int *status) {
    long met = 0;
    int entered = 0;
    for (;;) {
        entered |= shared->in_call;
        if (entered && !shared->in_call)
            return met;
        if (entered && in_recorder(pid) && ++met == k) {
            shared->interrupted++;
            ptrace(PTRACE_CONT, pid, NULL, (void *)(intptr_t)SIGUSR1);
            return met;
        }
        if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) != 0)
            abort();
        if (next_stop(pid, status) != SIGTRAP)
            abort();
    }
}

static int trace(pid_t pid) {
    const char *given = getenv("STRIDE");
    long stride = given ? atol(given) : 1;
    int status = 0;
    long k = 1;
    for (;;) {
        int stop = next_stop(pid, &status);
        if (stop < 0)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
        if (stop != SIGSTOP) {
            ptrace(PTRACE_CONT, pid, NULL, (void *)(intptr_t)stop);
            continue;
        }
        if (shared->over) {
            ptrace(PTRACE_CONT, pid, NULL, NULL);
            continue;
        }
        if (step_through(pid, k, &status) < k) {
            shared->over = 1;
            ptrace(PTRACE_CONT, pid, NULL, NULL);
        }
        k += stride;
    }
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 98;
    unwinds = strcmp(argv[1], "unwinds") == 0;
    jumps = unwinds || strcmp(argv[1], "jumps") == 0;
    int cold = strncmp(argv[2], "cold_", 5) == 0;
    dl_iterate_phdr(find_recorder, NULL);
    if (recorder_start == 0)
        return 97;
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(child(argv[2] + (cold ? 5 : 0), cold));
    return trace(pid);
}
