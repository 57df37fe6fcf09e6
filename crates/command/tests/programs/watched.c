// A program that is watched. It does what the lines of its standard input say, and answers each
// with "ok" or a number. It allocates nothing but what it is told to.
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 100000
static void *kept[MOST];
static int count;

static void keep(void *block) {
    int at = __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
    if (block == NULL || at >= MOST) abort();
    kept[at] = block;
}

__attribute__((noinline)) void by_malloc(long number, size_t size) {
    for (long i = 0; i < number; i++) keep(malloc(size));
}

__attribute__((noinline)) void by_calloc(long number, size_t size) {
    for (long i = 0; i < number; i++) keep(calloc(1, size));
}

// One block of each function.
__attribute__((noinline)) void by_others(size_t size) {
    void *block;
    if (posix_memalign(&block, 64, size) != 0) abort();
    keep(block);
    keep(aligned_alloc(64, size));
    keep(memalign(64, size));
    keep(valloc(size));
    keep(realloc(NULL, size));
    keep(reallocarray(NULL, 1, size));
}

__attribute__((noinline)) void by_realloc(size_t size) {
    for (int i = 0; i < count; i++) {
        kept[i] = realloc(kept[i], size);
        if (kept[i] == NULL) abort();
    }
}

// These fail, and the blocks stay.
static void fail(void) {
    for (int i = 0; i < count; i++)
        if (realloc(kept[i], PTRDIFF_MAX) != NULL) abort();
    if (malloc(PTRDIFF_MAX) != NULL || calloc(1UL << 40, 1UL << 40) != NULL) abort();
    if (malloc(SIZE_MAX) != NULL) abort();
}

__attribute__((noinline)) void free_all(void) {
    for (int i = 0; i < count; i++) free(kept[i]);
    count = 0;
    free(NULL);
}

static long thread_blocks;
static size_t thread_size;

static void *thread(void *unused) {
    by_malloc(thread_blocks, thread_size);
    return unused;
}

static void in_threads(int threads) {
    pthread_t all[64];
    for (int i = 0; i < threads; i++)
        if (pthread_create(&all[i], NULL, thread, NULL) != 0) abort();
    for (int i = 0; i < threads; i++) pthread_join(all[i], NULL);
}

static void handler(int unused) {
    (void)unused;
    by_malloc(thread_blocks, thread_size);
}

static void answer(const char *text) {
    char line[64];
    int length = snprintf(line, sizeof line, "%s\n", text);
    if (write(1, line, length) != length) _exit(9);
}

static void answer_number(long number) {
    char text[32];
    snprintf(text, sizeof text, "%ld", number);
    answer(text);
}

// The next line without its end; the program ends with its input.
static void read_line(char *line, int bytes) {
    int length = 0;
    for (;;) {
        char byte;
        if (read(0, &byte, 1) != 1) exit(0);
        if (byte == '\n') break;
        if (length < bytes - 1) line[length++] = byte;
    }
    line[length] = 0;
}

int main(int unused, char **arguments) {
    (void)unused;
    signal(SIGUSR1, handler);
    answer("ready");
    for (;;) {
        char line[256], what[32] = "";
        long number = 0;
        unsigned long size = 0;
        read_line(line, sizeof line);
        sscanf(line, "%31s %ld %lu", what, &number, &size);
        if (!strcmp(what, "malloc")) by_malloc(number, size);
        else if (!strcmp(what, "calloc")) by_calloc(number, size);
        else if (!strcmp(what, "others")) by_others(number);
        else if (!strcmp(what, "realloc")) by_realloc(number);
        else if (!strcmp(what, "fail")) fail();
        else if (!strcmp(what, "free")) free_all();
        else if (!strcmp(what, "threads")) {
            thread_blocks = number;
            thread_size = size;
            in_threads(8);
        } else if (!strcmp(what, "handler")) {
            thread_blocks = number;
            thread_size = size;
            raise(SIGUSR1);
        } else if (!strcmp(what, "descriptor")) {
            int descriptor = dup(0);
            close(descriptor);
            answer_number(descriptor);
            continue;
        } else if (!strcmp(what, "close")) {
            for (int i = 3; i < 4096; i++) close(i);
        } else if (!strcmp(what, "fork")) {
            // The child goes on with the input; the parent waits for it.
            pid_t child = fork();
            if (child == 0) {
                answer_number(getpid());
                continue;
            }
            int status;
            waitpid(child, &status, 0);
            answer_number(WEXITSTATUS(status));
            continue;
        } else if (!strcmp(what, "sandbox")) {
            // From now on memfd_create ends the process.
            struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            };
            struct sock_fprog program = {4, filter};
            if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
                prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
                answer("none");
                continue;
            }
        } else if (!strcmp(what, "limit")) {
            // From now on a file that grows ends the process.
            if (setrlimit(RLIMIT_FSIZE, &(struct rlimit){0, 0}) != 0) abort();
        } else if (!strcmp(what, "exec")) {
            execv("/proc/self/exe", arguments);
        } else if (!strcmp(what, "exit")) {
            exit(number);
        } else if (!strcmp(what, "kill")) {
            raise(number);
        } else {
            answer("?");
            continue;
        }
        answer("ok");
    }
}
