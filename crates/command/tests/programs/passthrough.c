/* Prints what a process inherits: `passthrough CASE`. It makes only the calls that
 * a case is about, and write(2). */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void put(int descriptor, const void *bytes, size_t count) {
    const char *rest = bytes;
    while (count > 0) {
        ssize_t written = write(descriptor, rest, count);
        if (written < 0)
            _exit(97);
        rest += written;
        count -= (size_t)written;
    }
}

static void say(const char *text) {
    put(1, text, strlen(text));
    put(1, "\n", 1);
}

/* Copies stdin to stdout, and to stderr with all bits inverted. Allocates a block for
 * every piece, to have something to record. */
static int copy(void) {
    for (;;) {
        unsigned char *piece = malloc(3000);
        ssize_t count = read(0, piece, 3000);
        if (count <= 0) {
            free(piece);
            return count < 0 ? 97 : 0;
        }
        put(1, piece, (size_t)count);
        for (ssize_t i = 0; i < count; i++)
            piece[i] = (unsigned char)~piece[i];
        put(2, piece, (size_t)count);
        free(piece);
    }
}

static int environment(void) {
    for (char **variable = environ; *variable != NULL; variable++)
        say(*variable);
    return 0;
}

/* Every open descriptor except that of the listing itself. */
static int descriptors(void) {
    free(malloc(10));
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    while ((entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(folder))
            say(entry->d_name);
    closedir(folder);
    return 0;
}

/* Dispositions, blocked and pending signals, mask of new files, folder, name,
 * niceness, limits: one line each. */
static int state(int argc, char **argv) {
    char line[8192];
    free(malloc(10));
    for (int number = 1; number < 65; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) == 0) {
            snprintf(line, sizeof line, "signal %d: %s", number,
                     action.sa_handler == SIG_DFL   ? "default"
                     : action.sa_handler == SIG_IGN ? "ignored"
                                                    : "handled");
            say(line);
        }
    }
    sigset_t blocked, pending;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    sigpending(&pending);
    for (int number = 1; number < 65; number++)
        if (sigismember(&blocked, number) == 1 || sigismember(&pending, number) == 1)
            say("a signal is blocked or pending");
    mode_t mask = umask(0);
    snprintf(line, sizeof line, "umask %o, nice %d, errno %d", (unsigned)mask,
             getpriority(PRIO_PROCESS, 0), errno);
    say(line);
    for (int resource = 0; resource < RLIM_NLIMITS; resource++) {
        struct rlimit limit;
        getrlimit((__rlimit_resource_t)resource, &limit);
        snprintf(line, sizeof line, "limit %d: %llu %llu", resource,
                 (unsigned long long)limit.rlim_cur, (unsigned long long)limit.rlim_max);
        say(line);
    }
    for (int i = 0; i < argc; i++)
        say(argv[i]);
    return 0;
}

static int folder(void) {
    char path[8192];
    free(malloc(10));
    say(getcwd(path, sizeof path));
    return 0;
}

/* Whether the process is in its parent's group and session. */
static int group(void) {
    free(malloc(10));
    say(getpgrp() == getpgid(getppid()) ? "group of the parent" : "another group");
    say(getsid(0) == getsid(getppid()) ? "session of the parent" : "another session");
    return 0;
}

/* Prints "ready", waits for a signal, prints which, ends with 9. */
static void handler(int number) {
    char digits[3] = {(char)('0' + number / 10), (char)('0' + number % 10), '\n'};
    put(1, digits, 3);
    _exit(9);
}

static int wait_handled(void) {
    int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        signal(numbers[i], handler);
    free(malloc(10));
    say("ready");
    for (;;)
        pause();
}

static int wait_unhandled(void) {
    free(malloc(10));
    say("ready");
    for (;;)
        pause();
}

/* Writes into the file PATH which of the standard streams are open, and which number
 * the next file gets. */
static int streams(const char *path) {
    char line[] = "---0";
    free(malloc(10));
    for (int number = 0; number < 3; number++)
        if (fcntl(number, F_GETFD) >= 0)
            line[number] = 'o';
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    line[3] = (char)('0' + file);
    put(file, line, 4);
    return 0;
}

static void say_error(const char *when) {
    const char *error = dlerror();
    say(when);
    say(error == NULL ? "no error" : error);
}

/* A look-up that fails. What it allocates is the same in every thread. */
__attribute__((noinline)) static void fails_in_main(void) {
    dlsym(RTLD_DEFAULT, "no_function_has_this_name");
    say_error("main, failed");
    say_error("main, said");
}

__attribute__((noinline)) static void fails_in_thread(void) {
    dlsym(RTLD_DEFAULT, "no_function_has_this_name");
    say_error("thread, failed");
    say_error("thread, said");
}

static void *dl_thread(void *unused) {
    say_error("thread");
    free(malloc(10));
    say_error("thread, allocated");
    fails_in_thread();
    return unused;
}

/* Errors of dlsym that are still pending. */
static int dl_errors(void) {
    say_error("start");
    free(malloc(10));
    say_error("allocated");
    fails_in_main();
    pthread_t thread;
    pthread_create(&thread, NULL, dl_thread, NULL);
    pthread_join(thread, NULL);
    dlsym(RTLD_DEFAULT, "no_function_has_this_name");
    free(malloc(10));
    say_error("failed before");
    return 0;
}

static sigjmp_buf refused;

static void on_fault(int signal) {
    siglongjmp(refused, signal);
}

static void say_counter(void) {
    if (sigsetjmp(refused, 1) == 0) {
        __builtin_ia32_rdtsc();
        say("counter read");
    } else {
        say("counter refused");
    }
    int state = 0;
    prctl(PR_GET_TSC, &state);
    say(state == PR_TSC_SIGSEGV ? "forbidden" : "permitted");
}

__attribute__((noinline)) static void many_blocks(void) {
    for (int i = 0; i < 10000; i++)
        free(malloc(10));
}

static void *counter_thread(void *unused) {
    many_blocks();
    say_counter();
    return unused;
}

/* Reading the time stamp counter is forbidden: before, in a thread, in a child,
 * after. 20,000 blocks, and 10,000 in the child. (A program exec'ed in this state
 * would end in its loader, which reads the counter.) */
static int counter(void) {
    struct sigaction action = {.sa_handler = on_fault};
    sigaction(SIGSEGV, &action, NULL);
    say_counter();
    prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
    many_blocks();
    say_counter();
    pthread_t thread;
    pthread_create(&thread, NULL, counter_thread, NULL);
    pthread_join(thread, NULL);
    pid_t child = fork();
    if (child == 0) {
        many_blocks();
        say_counter();
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0)
        return 97;
    prctl(PR_SET_TSC, PR_TSC_ENABLE);
    free(malloc(10));
    say_counter();
    return 0;
}

/* Calls of the exec family with addresses that the kernel refuses. */
static int wrong_addresses(void) {
    /* The lowest page, one that nobody may read, and the last one of the address space. */
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *mapped = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED || mprotect(mapped + page, page, PROT_NONE) != 0)
        return 97;
    /* An array without an end before the page that cannot be read. */
    char **strings = (char **)(mapped + page) - 2;
    strings[0] = strings[1] = "NAME=value";
    void *wrong[] = {(void *)1, mapped + page, (void *)-1L, (void *)-16L, strings};
    char *none[] = {NULL};
    int file = open("/proc/self/exe", O_RDONLY);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int results[6], errors[6], count = 0;
#define TRY(call) (errno = 0, results[count] = (call), errors[count++] = errno)
        TRY(execve(wrong[i], none, none));
        TRY(execve("/proc/self/exe", none, wrong[i]));
        TRY(fexecve(file, none, wrong[i]));
        TRY(execveat(file, wrong[i], none, none, AT_EMPTY_PATH));
        TRY(execle("/proc/self/exe", "1", "2", "3", "4", "5", "6", "7", NULL, wrong[i]));
        TRY(posix_spawn(NULL, "/proc/self/exe", NULL, NULL, none, wrong[i]));
        for (int call = 0; call < count; call++) {
            char text[80];
            snprintf(text, sizeof text, "%zu.%d: %d %d", i, call, results[call], errors[call]);
            say(text);
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "copy") == 0)
        return copy();
    if (strcmp(name, "environment") == 0)
        return environment();
    if (strcmp(name, "descriptors") == 0)
        return descriptors();
    if (strcmp(name, "state") == 0)
        return state(argc, argv);
    if (strcmp(name, "folder") == 0)
        return folder();
    if (strcmp(name, "group") == 0)
        return group();
    if (strcmp(name, "wait-handled") == 0)
        return wait_handled();
    if (strcmp(name, "wait-unhandled") == 0)
        return wait_unhandled();
    if (strcmp(name, "streams") == 0 && argc > 2)
        return streams(argv[2]);
    if (strcmp(name, "dl-errors") == 0)
        return dl_errors();
    if (strcmp(name, "counter") == 0)
        return counter();
    if (strcmp(name, "wrong-addresses") == 0)
        return wrong_addresses();
    return 98;
}
