/* Threads with names, 40 in each case: `thread_names CASE`. Thread N is called `resize-N` and
 * makes 100 + N allocations in `work`; those in one case have no name of their own. A thread
 * ends at once after its last line. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALONE __attribute__((noipa))
#define THREADS 40
#define NAME 16

static void name_of(int n, char name[NAME]) {
    snprintf(name, NAME, "resize-%d", n);
}

ALONE static void work(int n) {
    for (int i = 0; i < 100 + n; i++) {
        char *volatile block = malloc(40);
        free(block);
    }
}

static void *by_pthread(void *number) {
    char name[NAME];
    name_of((int)(intptr_t)number, name);
    if (pthread_setname_np(pthread_self(), name) != 0)
        _exit(97);
    work((int)(intptr_t)number);
    return NULL;
}

static void *by_prctl(void *number) {
    char name[NAME];
    name_of((int)(intptr_t)number, name);
    work((int)(intptr_t)number);
    if (prctl(PR_SET_NAME, name, 0, 0, 0) != 0)
        _exit(97);
    return NULL;
}

static void *by_syscall(void *number) {
    char name[NAME];
    name_of((int)(intptr_t)number, name);
    work((int)(intptr_t)number);
    if (syscall(SYS_prctl, PR_SET_NAME, name, 0, 0, 0) != 0)
        _exit(97);
    return NULL;
}

static void write_comm(const char *file, int n) {
    char name[NAME];
    name_of(n, name);
    int comm = open(file, O_WRONLY);
    if (write(comm, name, strlen(name)) != (ssize_t)strlen(name))
        _exit(97);
    close(comm);
}

static void *by_file(void *number) {
    work((int)(intptr_t)number);
    write_comm("/proc/thread-self/comm", (int)(intptr_t)number);
    return NULL;
}

static void *by_exit(void *number) {
    by_prctl(number);
    pthread_exit(NULL);
}

/* Ends without the C library. */
static void *by_file_and_raw_exit(void *number) {
    by_file(number);
    syscall(SYS_exit, 0);
    return NULL;
}

static void *unnamed(void *number) {
    work((int)(intptr_t)number);
    return NULL;
}

/* Has the name of the thread that creates it, and later one of its own: it is the last that
 * counts. */
static void *twice(void *number) {
    pthread_setname_np(pthread_self(), "before");
    return by_prctl(number);
}

static void one_by_one(void *(*body)(void *)) {
    for (int n = 0; n < THREADS; n++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, body, (void *)(intptr_t)n) != 0)
            _exit(97);
        pthread_join(thread, NULL);
    }
}

/* Threads that have done their work and wait; main names them. */
static pthread_barrier_t worked, named;
static pid_t ids[THREADS];

static void *waiting(void *number) {
    ids[(intptr_t)number] = (pid_t)syscall(SYS_gettid);
    work((int)(intptr_t)number);
    pthread_barrier_wait(&worked);
    pthread_barrier_wait(&named);
    return NULL;
}

/* Starts them and names them, with `pthread_setname_np` or by their comm files; lets them go on
 * only without an `end`, which ends the process while they live. */
static void by_others(int by_files, void (*end)(int)) {
    static pthread_t threads[THREADS];
    pthread_barrier_init(&worked, NULL, THREADS + 1);
    pthread_barrier_init(&named, NULL, THREADS + 1);
    for (int n = 0; n < THREADS; n++)
        if (pthread_create(&threads[n], NULL, waiting, (void *)(intptr_t)n) != 0)
            _exit(97);
    pthread_barrier_wait(&worked);
    for (int n = 0; n < THREADS; n++) {
        char name[NAME];
        name_of(n, name);
        if (by_files) {
            char file[64];
            snprintf(file, sizeof file, "/proc/self/task/%d/comm", (int)ids[n]);
            write_comm(file, n);
        } else if (pthread_setname_np(threads[n], name) != 0)
            _exit(97);
    }
    if (end)
        end(0);
    pthread_barrier_wait(&named);
    for (int n = 0; n < THREADS; n++)
        pthread_join(threads[n], NULL);
}

static void raw_exit_group(int status) {
    syscall(SYS_exit_group, status);
}

/* The name of a child of its own, which ends at once: 40 processes, one after the other. */
static void in_children(void) {
    for (int n = 0; n < THREADS; n++) {
        pid_t child = fork();
        if (child == 0) {
            by_prctl((void *)(intptr_t)n);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
}

/* From here on the kernel ends the process for every `prctl` but `PR_SET_NAME`. */
static void forbid(int by_syscall) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_NAME, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        _exit(96);
    long result = by_syscall ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)
                             : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    if (result != 0)
        _exit(96);
}

/* Prints the keys that a program gets, and what `errno`, a wrong `prctl` and a wrong name are
 * like: all as without a recording. */
static void *show_key(void *key) {
    pthread_setspecific(*(pthread_key_t *)key, key);
    return pthread_getspecific(*(pthread_key_t *)key);
}

static void behave(void) {
    pthread_key_t keys[31];
    for (int i = 0; i < 31; i++) {
        int error = pthread_key_create(&keys[i], NULL);
        printf("%d %u\n", error, keys[i]);
    }
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, show_key, &keys[30]);
    pthread_join(thread, &result);
    printf("%d\n", result == &keys[30]);
    printf("%d\n", pthread_setname_np(pthread_self(), "a name of 20 letters"));
    printf("%d %m\n", prctl(PR_SET_NAME, (char *)1, 0, 0, 0));
    printf("%d %m\n", prctl(12345, 0, 0, 0, 0));
    printf("%ld %m\n", syscall(SYS_prctl, 12345, 0, 0, 0, 0));
    printf("%ld %m\n", syscall(SYS_pread64, 1000, &keys, 8, (off_t)-1));
    printf("%d\n", syscall(SYS_mmap, NULL, 4096, 3, 0x22, -1, 0) > 0);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void *(*body)(void *);
    } cases[] = {
        {"pthread", by_pthread}, {"prctl", by_prctl}, {"syscall", by_syscall},
        {"file", by_file},       {"exit", by_exit},   {"twice", twice},
        {"file-raw-exit", by_file_and_raw_exit},
    };
    if (argc != 2)
        return 98;
    prctl(PR_SET_NAME, "creator", 0, 0, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(argv[1], cases[i].name) == 0)
            one_by_one(cases[i].body);
    if (strcmp(argv[1], "unnamed") == 0)
        one_by_one(unnamed);
    if (strcmp(argv[1], "others") == 0)
        by_others(0, NULL);
    if (strcmp(argv[1], "alive") == 0)
        by_others(0, _exit);
    static const struct {
        const char *name;
        void (*end)(int);
    } ends[] = {
        {"alive-exit", exit},
        {"alive-_exit", _exit},
        {"alive-quick_exit", quick_exit},
        {"alive-exit_group", raw_exit_group},
    };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (strcmp(argv[1], ends[i].name) == 0)
            by_others(1, ends[i].end);
    if (strcmp(argv[1], "children") == 0)
        in_children();
    if (strcmp(argv[1], "filter") == 0 || strcmp(argv[1], "filter-by-syscall") == 0) {
        forbid(strcmp(argv[1], "filter") != 0);
        one_by_one(by_pthread);
    }
    if (strcmp(argv[1], "behave") == 0)
        behave();
    return 0;
}
