/* Programs that stop, or are stopped: `stopping CASE [SIGNAL]`. Each prints a
 * line when something has happened, makes one block of 10 bytes each time it
 * goes on, keeps it, and ends with status 7. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *text) {
    if (write(1, text, strlen(text)) < 0)
        _exit(97);
}

static void gone_on(void) {
    if (malloc(10) == NULL)
        _exit(97);
    say("gone on\n");
}

/* Whether /proc says that the process is stopped. */
static int is_stopped(pid_t pid) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int file = open(path, O_RDONLY);
    ssize_t count = read(file, text, sizeof text - 1);
    close(file);
    if (count <= 0)
        return 0;
    text[count] = 0;
    char *end = strrchr(text, ')');
    return end != NULL && end[2] == 'T';
}

/* Three times by itself: three blocks. */
static void by_itself(int signal) {
    for (int i = 0; i < 3; i++) {
        kill(getpid(), signal);
        gone_on();
    }
}

/* Only its own child continues it: one block. */
static void continued_by_its_child(int signal) {
    pid_t parent = getpid(), child = fork();
    if (child == 0) {
        while (!is_stopped(parent) || !is_stopped(getppid()))
            usleep(1000);
        /* Time for the parent's parent to stop, too. */
        usleep(300000);
        kill(parent, SIGCONT);
        _exit(0);
    }
    kill(parent, signal);
    gone_on();
    waitpid(child, NULL, 0);
}

/* Its child kills it while it is stopped: no block, no status of its own. */
static void killed_while_stopped(int signal) {
    pid_t parent = getpid();
    if (fork() == 0) {
        while (!is_stopped(parent))
            usleep(1000);
        usleep(300000);
        kill(parent, SIGKILL);
        _exit(0);
    }
    kill(parent, signal);
}

/* Reads lines until one says "end": as many blocks as lines. */
static void reads(void) {
    char line[100];
    say("reading\n");
    while (fgets(line, sizeof line, stdin) != NULL) {
        gone_on();
        if (strcmp(line, "end\n") == 0)
            return;
    }
}

/* As an editor: cleans up before it stops. */
static void on_stop(int signal) {
    say("cleaned up\n");
    struct sigaction once = {.sa_handler = SIG_DFL}, before;
    sigaction(signal, &once, &before);
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, signal);
    raise(signal);
    sigprocmask(SIG_UNBLOCK, &set, &old);
    sigprocmask(SIG_SETMASK, &old, NULL);
    sigaction(signal, &before, NULL);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IONBF, 0);
    const char *name = argc > 1 ? argv[1] : "";
    int signal = argc > 2 ? atoi(argv[2]) : SIGSTOP;
    /* The buffer of stdin is none of the blocks that are counted. */
    static char buffer[BUFSIZ];
    setvbuf(stdin, buffer, _IOFBF, sizeof buffer);
    struct sigaction action = {.sa_flags = SA_RESTART};
    if (strcmp(name, "by-itself") == 0) {
        by_itself(signal);
    } else if (strcmp(name, "continued-by-its-child") == 0) {
        continued_by_its_child(signal);
    } else if (strcmp(name, "killed-while-stopped") == 0) {
        killed_while_stopped(signal);
    } else if (strcmp(name, "reads") == 0) {
        reads();
    } else if (strcmp(name, "reads-deaf") == 0) {
        action.sa_handler = SIG_IGN;
        sigaction(SIGTSTP, &action, NULL);
        reads();
    } else if (strcmp(name, "reads-careful") == 0) {
        action.sa_handler = on_stop;
        sigaction(SIGTSTP, &action, NULL);
        reads();
    } else {
        return 98;
    }
    return 7;
}
