/* Runs a program for a tool and writes its resource usage to a file:
 * `launcher [-m BYTES] RESULT PROGRAM ARGUMENTS...`. The program inherits
 * everything else. The launcher ends with the program's status.
 *
 * RESULT gets one line: start and end of the program on CLOCK_MONOTONIC in
 * nanoseconds, user and system time in microseconds (including those of its
 * waited-for children), peak resident set in KiB, and its status as from wait(2).
 *
 * The launcher allocates nothing and is small, because a program's peak resident
 * set is never below that of the process which started it. -m limits the
 * program's address space. The launcher is linked twice: statically, for tools
 * whose library removes itself from the environment of a process that loads it
 * (then the program would not be recorded), and dynamically for all others. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (long long)time.tv_sec * 1000000000 + time.tv_nsec;
}

static long long microseconds(struct timeval time) {
    return (long long)time.tv_sec * 1000000 + time.tv_usec;
}

static int report(const char *path, long long start, long long end, const struct rusage *usage,
                  int status) {
    char line[256];
    int length = snprintf(line, sizeof line, "%lld %lld %lld %lld %ld %d\n", start, end,
                          microseconds(usage->ru_utime), microseconds(usage->ru_stime),
                          usage->ru_maxrss, status);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    return file >= 0 && write(file, line, (size_t)length) == length && close(file) == 0;
}

/* Until the child executes the program, the parent is suspended (vfork). */
static pid_t started(char *const program[], const struct rlimit *space) {
    const pid_t child = vfork();
    if (child == 0) {
        if (space->rlim_cur != RLIM_INFINITY)
            setrlimit(RLIMIT_AS, space);
        execv(program[0], program);
        _exit(127);
    }
    return child;
}

static int as_a_status_of_ours(int status) {
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 125;
}

int main(int argc, char **argv) {
    struct rlimit space = {RLIM_INFINITY, RLIM_INFINITY};
    int first = 1;
    if (argc > 2 && strcmp(argv[1], "-m") == 0) {
        space.rlim_cur = space.rlim_max = strtoull(argv[2], NULL, 10);
        first = 3;
    }
    if (argc < first + 2)
        return 125;
    const long long start = now();
    const pid_t child = started(argv + first + 1, &space);
    struct rusage usage;
    int status;
    while (wait4(child, &status, 0, &usage) < 0)
        if (errno != EINTR)
            return 125;
    if (!report(argv[first], start, now(), &usage, status))
        return 125;
    return as_a_status_of_ours(status);
}
