/* Starts processes in namespaces of their own, as a container engine does:
 *
 *     namespaces FLAGS ENDING      the outer process and its container
 *     namespaces leaf N STATUS     N blocks of N bytes, all leaked
 *
 * FLAGS: u p m n, the namespaces to enter (user, pid, mount, network); r: with
 * another root folder (pivot_root), f: with a new /proc. A child of the outer
 * process enters them, the outer one maps its user ids, and the child's child,
 * which is process 1 of a new pid namespace, is the container's first. ENDING is
 * what the first does after its own work:
 *
 *     exit       it ends with status 3
 *     exec       it becomes `leaf 6 4`
 *     spawn      it starts `leaf 6 4` by fork and exec, and ends with its status
 *     bare       as spawn, but without work of its own before
 *     orphan     it adopts its grandchild, which allocates and ends with status 5;
 *                it waits for the grandchild and ends with status 3
 *     dies       its grandchild waits for ever, and is killed with it
 *     twice      (of the outer process) two containers at once, which become
 *                `leaf 6 4` and `leaf 9 5`; status 4
 *
 * The outer process: outer_work, 10 blocks of 100 bytes. The container's first:
 * inner_work, 7 of 11. The grandchild: late_work, 5 of 13. The outer one ends
 * with the container's status, 77 if the kernel refuses.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALONE __attribute__((noipa))
#define REFUSED 77

static void *volatile sink;
static char self[4096];

ALONE static void leaf_work(size_t count) {
    for (size_t i = 0; i < count; i++)
        sink = malloc(count);
}

ALONE static void outer_work(void) {
    for (int i = 0; i < 10; i++)
        sink = malloc(100);
}

ALONE static void inner_work(void) {
    for (int i = 0; i < 7; i++)
        sink = malloc(11);
}

ALONE static void late_work(void) {
    for (int i = 0; i < 5; i++)
        sink = malloc(13);
}

static int status_of(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int has(const char *flags, char flag) { return strchr(flags, flag) != NULL; }

static int write_to(const char *path, const char *text) {
    int file = open(path, O_WRONLY);
    int result = file < 0 ? -1 : (int)write(file, text, strlen(text));
    close(file);
    return result;
}

static void require(int result) {
    if (result < 0)
        _exit(REFUSED);
}

/* What newuidmap(1) does: with its rights one may map more than one id. */
static void map_ids(pid_t child) {
    static const char *const kinds[] = {"uid_map", "gid_map"};
    unsigned own[] = {geteuid(), getegid()};
    char path[64], one[64];
    snprintf(path, sizeof path, "/proc/%d/setgroups", child);
    require(write_to(path, "deny"));
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", child, kinds[i]);
        snprintf(one, sizeof one, "0 %u 1\n", own[i]);
        if (own[i] != 0 || write_to(path, "0 0 1\n1 100000 65534\n") < 0)
            require(write_to(path, one));
    }
}

static void become_leaf(const char *count, const char *status) {
    execl(self, self, "leaf", count, status, (char *)0);
    _exit(91);
}

/* In the namespaces, as their first process. */
static void container(const char *flags, const char *ending, const char *count,
                      const char *status) {
    if (has(flags, 'm'))
        require(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
    if (has(flags, 'r')) {
        char root[] = "/tmp/namespaces-XXXXXX";
        if (!mkdtemp(root))
            _exit(REFUSED);
        require(mount("/", root, NULL, MS_BIND | MS_REC, NULL));
        require(chdir(root));
        require((int)syscall(SYS_pivot_root, ".", "."));
        require(umount2(".", MNT_DETACH));
        require(rmdir(root));
        require(chdir("/"));
    }
    if (has(flags, 'f'))
        require(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL));
    if (strcmp(ending, "bare") != 0)
        inner_work();
    if (strcmp(ending, "exec") == 0)
        become_leaf(count, status);
    if (strcmp(ending, "spawn") == 0 || strcmp(ending, "bare") == 0) {
        pid_t child = fork();
        if (child == 0)
            become_leaf(count, status);
        _exit(status_of(child));
    }
    if (strcmp(ending, "orphan") == 0 || strcmp(ending, "dies") == 0) {
        int ready[2];
        require(pipe(ready));
        pid_t child = fork();
        if (child == 0) {
            if (fork() == 0) {
                while (getppid() != 1)
                    usleep(1000);
                late_work();
                close(ready[0]);
                close(ready[1]);
                while (strcmp(ending, "dies") == 0)
                    pause();
                _exit(5);
            }
            _exit(0);
        }
        close(ready[1]);
        char byte;
        while (read(ready[0], &byte, 1) > 0) {
        }
        while (strcmp(ending, "orphan") == 0 && wait(NULL) > 0) {
        }
    }
    _exit(3);
}

/* Starts a container; returns the process that waits for it. */
static pid_t start(const char *flags, const char *ending, const char *count,
                   const char *status) {
    int entered[2], mapped[2];
    char byte = 0;
    if (pipe(entered) < 0 || pipe(mapped) < 0)
        _exit(REFUSED);
    pid_t child = fork();
    if (child == 0) {
        int kinds = (has(flags, 'u') ? CLONE_NEWUSER : 0) | (has(flags, 'p') ? CLONE_NEWPID : 0) |
                    (has(flags, 'm') ? CLONE_NEWNS : 0) | (has(flags, 'n') ? CLONE_NEWNET : 0);
        require(unshare(kinds));
        require((int)write(entered[1], &byte, 1));
        close(mapped[1]);
        if (read(mapped[0], &byte, 1) != 1)
            _exit(REFUSED);
        if (has(flags, 'u')) {
            require(setresgid(0, 0, 0));
            require(setresuid(0, 0, 0));
        }
        pid_t first = fork();
        if (first == 0)
            container(flags, ending, count, status);
        _exit(status_of(first));
    }
    close(entered[1]);
    if (read(entered[0], &byte, 1) != 1)
        _exit(REFUSED);
    if (has(flags, 'u'))
        map_ids(child);
    require((int)write(mapped[1], &byte, 1));
    return child;
}

int main(int argc, char **argv) {
    if (argc == 4 && strcmp(argv[1], "leaf") == 0) {
        leaf_work(strtoul(argv[2], NULL, 10));
        return atoi(argv[3]);
    }
    if (argc != 3 || !realpath(argv[0], self))
        return 90;
    outer_work();
    if (strcmp(argv[2], "twice") == 0) {
        pid_t one = start(argv[1], "exec", "6", "4");
        pid_t other = start(argv[1], "exec", "9", "5");
        int status = status_of(one);
        return status_of(other) == 5 ? status : REFUSED;
    }
    return status_of(start(argv[1], argv[2], "6", "4"));
}
