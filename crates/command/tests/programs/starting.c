/* Starts a program in each way there is, in a child unless HOW is "replace":
 *
 *     starting HOW REMOVE PROGRAM ARGUMENT...
 *
 * The file REMOVE is unlinked before ("-": none). The status is the program's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int is(const char *how, const char *name) { return strcmp(how, name) == 0; }

/* With no arguments or five. */
static void become(const char *how, char **v) {
    if (is(how, "execve"))
        execve(v[0], v, environ);
    if (is(how, "execv") || is(how, "vfork") || is(how, "replace"))
        execv(v[0], v);
    if (is(how, "execvp"))
        execvp(v[0], v);
    if (is(how, "execvpe"))
        execvpe(v[0], v, environ);
    if (is(how, "execl"))
        execl(v[0], v[0], v[1], v[2], v[3], v[4], v[5], (char *)0);
    if (is(how, "execlp"))
        execlp(v[0], v[0], v[1], v[2], v[3], v[4], v[5], (char *)0);
    if (is(how, "execle") && v[1])
        execle(v[0], v[0], v[1], v[2], v[3], v[4], v[5], (char *)0, environ);
    if (is(how, "execle"))
        execle(v[0], v[0], (char *)0, environ);
    if (is(how, "fexecve"))
        fexecve(open(v[0], O_RDONLY | O_CLOEXEC), v, environ);
    if (is(how, "execveat"))
        execveat(AT_FDCWD, v[0], v, environ, 0);
    perror(how);
    _exit(90);
}

int main(int argc, char **argv) {
    if (argc < 4)
        return 91;
    const char *how = argv[1];
    char **command = argv + 3;
    if (!is(argv[2], "-") && unlink(argv[2]) != 0)
        return 92;
    pid_t child;
    if (is(how, "posix_spawn")) {
        if (posix_spawn(&child, command[0], 0, 0, command, environ) != 0)
            return 93;
    } else if (is(how, "posix_spawnp")) {
        /* No pid is asked for. */
        if (posix_spawnp(0, command[0], 0, 0, command, environ) != 0)
            return 93;
        child = -1;
    } else if (is(how, "vfork")) {
        if ((child = vfork()) == 0)
            become(how, command);
    } else if (is(how, "replace")) {
        become(how, command);
    } else {
        if ((child = fork()) == 0)
            become(how, command);
    }
    int status;
    if (waitpid(child, &status, 0) < 0)
        return 94;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 95;
}
