/* Process trees: `process_trees CASE…`. Unless stated otherwise the parent has
 * 10 blocks of 100 bytes (`parent_work`) when the child comes; the child frees
 * 4 of those, allocates 7 blocks of 11 bytes in `child_work`, frees the last,
 * and ends with 3:
 *   child: 10 inherited of 1000 bytes, 4 of them deallocated, 7 allocations of
 *   77 bytes, 6 leaked; parent: 10 allocations, all freed, status 0.
 * No stdio. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALONE __attribute__((noipa))

extern char **environ;
static void *volatile sink;
static void *blocks[10];
static const char *self = "/proc/self/exe";

static int status_of(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, __WALL) < 0)
        if (errno != EINTR)
            return 95;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

ALONE static void parent_work(void) {
    for (int i = 0; i < 10; i++)
        blocks[i] = malloc(100);
}

ALONE static void child_work(void) {
    for (int i = 0; i < 4; i++)
        free(blocks[i]);
    for (int i = 0; i < 7; i++)
        sink = malloc(11);
    free(sink);
}

static int child_main(void *argument) {
    child_work();
    _exit(3);
    return argument != NULL;
}

/* The parent's part once it has a child that runs `child_main`. */
static int finish(pid_t child) {
    int status = child < 0 ? 94 : status_of(child);
    if (status != 3)
        return status == 0 ? 93 : status;
    for (int i = 0; i < 10; i++)
        free(blocks[i]);
    return 0;
}

static int with_fork(void) {
    parent_work();
    pid_t child = fork();
    if (child == 0)
        child_main(NULL);
    return finish(child);
}

static int with_quiet_fork(void) {
    parent_work();
    pid_t child = _Fork();
    if (child == 0)
        child_main(NULL);
    return finish(child);
}

static int with_raw_clone(void) {
    parent_work();
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0)
        child_main(NULL);
    return finish(child);
}

/* libc's clone, the child on a stack of its own. */
static int with_clone(void) {
    static char stack[1 << 16] __attribute__((aligned(64)));
    parent_work();
    return finish(clone(child_main, stack + sizeof stack, SIGCHLD, NULL));
}

/* `threaded N`: four threads allocate without end while the main thread forks N
 * children, one after the other; 7 blocks of 11 bytes each, nothing freed but
 * the last. */
static atomic_int stop;

ALONE static void *noise(void *argument) {
    while (!atomic_load(&stop)) {
        for (int i = 0; i < 32; i++) {
            void *block = malloc(64);
            *(volatile char *)block = 1;
            free(block);
        }
        usleep(20); /* or there would be more to read than to test */
    }
    return argument;
}

static int threaded(int forks, pid_t (*start)(void)) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, noise, NULL) != 0)
            return 97;
    for (int i = 0; i < forks; i++) {
        pid_t child = start();
        if (child == 0)
            child_main(NULL);
        if (status_of(child) != 3)
            return 97;
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

/* `leaf N`: N blocks of N bytes in `leaf_work`, all leaked; status 4. */
ALONE static void leaf_work(size_t count) {
    for (size_t i = 0; i < count; i++)
        sink = malloc(count);
}

static char *leaf_arguments[] = {"process_trees", "leaf", "6", NULL};

/* `vfork`: the child allocates 3 blocks of 33 bytes in `borrowed_work` before
 * it becomes `leaf 6`; they are its parent's, whose memory it still has. */
ALONE static void borrowed_work(void) {
    for (int i = 0; i < 3; i++)
        sink = malloc(33);
}

static int with_vfork(void) {
    parent_work();
    pid_t child = vfork();
    if (child == 0) {
        borrowed_work();
        execv(self, leaf_arguments);
        _exit(97);
    }
    return status_of(child);
}

static int with_spawn(void) {
    pid_t child;
    parent_work();
    if (posix_spawn(&child, self, NULL, NULL, leaf_arguments, environ) != 0)
        return 97;
    return status_of(child);
}

static int with_system(const char *program) {
    char line[4200] = "";
    strcat(strcat(line, program), " leaf 6; exit $?");
    parent_work();
    return WEXITSTATUS(system(line));
}

/* `chain N`: N blocks of N bytes in `leaf_work`, then itself again in the same
 * process with N - 1, down to 1; status 4. */
static int chain(int count) {
    leaf_work((size_t)count);
    if (count <= 1)
        return 4;
    char next[16];
    snprintf(next, sizeof next, "%d", count - 1);
    execl(self, "process_trees", "chain", next, NULL);
    return 97;
}

/* `daemon`: the child of a child, in a session of its own, works when both are
 * gone, and writes the pid of its new parent into the file `parent`. */
static int make_daemon(void) {
    parent_work();
    pid_t starter = getpid();
    pid_t child = fork();
    if (child > 0)
        return status_of(child);
    setsid();
    pid_t middle = getpid();
    if (fork() > 0)
        _exit(0);
    while (getppid() == middle || kill(starter, 0) == 0)
        usleep(1000);
    child_work();
    int file = open("parent", O_WRONLY | O_CREAT | O_TRUNC, 0666);
    char text[32];
    int length = snprintf(text, sizeof text, "%d\n", (int)getppid());
    if (write(file, text, (size_t)length) != length)
        _exit(96);
    _exit(3);
}

/* Confinements. Each is imposed on a child, which then works, and on the parent
 * before it forks a second child, which works, too. */
static void refuse_everything(void) {
    static const int allowed[] = {
        /* What the program needs: memory, forking, waiting and ending. */
        SYS_brk, SYS_mmap, SYS_munmap, SYS_mprotect, SYS_clone, SYS_set_robust_list, SYS_wait4,
        SYS_exit_group,
        /* What the recorder needs besides. */
        SYS_madvise, SYS_futex, SYS_getpid, SYS_gettid, SYS_rt_sigprocmask,
    };
    enum { COUNT = sizeof allowed / sizeof *allowed };
    struct sock_filter filter[2 + 2 * COUNT] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    for (int i = 0; i < COUNT; i++) {
        filter[1 + 2 * i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                         (unsigned)allowed[i], 0, 1);
        filter[2 + 2 * i] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    filter[1 + 2 * COUNT] =
        (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(96);
}

static void change_root(void) {
    if (chroot(".") != 0 || chdir("/") != 0)
        _exit(96);
}

static void change_user(void) {
    if (setgid(65534) != 0 || setuid(65534) != 0)
        _exit(96);
}

static void close_everything(void) {
    if (syscall(SYS_close_range, 3, ~0U, 0) != 0)
        _exit(96);
}

static void few_descriptors(void) {
    struct rlimit limit = {64, 64};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        _exit(96);
}

static int confined(void (*confine)(void)) {
    parent_work();
    pid_t child = fork();
    if (child == 0) {
        confine();
        child_main(NULL);
    }
    int status = status_of(child);
    if (status != 3)
        return status;
    confine();
    child = fork();
    if (child == 0)
        child_main(NULL);
    return finish(child);
}

/* The same, and then itself again as `leaf 6`. */
static int confined_exec(void (*confine)(void)) {
    parent_work();
    confine();
    execv(self, leaf_arguments);
    return 97;
}

static int run(const char *name, char **rest, const char *program) {
    static const struct {
        const char *name;
        void (*confine)(void);
    } confinements[] = {
        {"seccomp", refuse_everything}, {"chroot", change_root},
        {"setuid", change_user},        {"close_range", close_everything},
        {"nofile", few_descriptors},
    };
    for (size_t i = 0; i < sizeof confinements / sizeof *confinements; i++)
        if (strcmp(name, confinements[i].name) == 0)
            return rest[0] != NULL ? confined_exec(confinements[i].confine)
                                   : confined(confinements[i].confine);
    if (strcmp(name, "fork") == 0)
        return with_fork();
    if (strcmp(name, "_Fork") == 0)
        return with_quiet_fork();
    if (strcmp(name, "raw-clone") == 0)
        return with_raw_clone();
    if (strcmp(name, "clone") == 0)
        return with_clone();
    if (strcmp(name, "threaded") == 0)
        return threaded(atoi(rest[0]), rest[1] != NULL ? _Fork : fork);
    if (strcmp(name, "vfork") == 0)
        return with_vfork();
    if (strcmp(name, "spawn") == 0)
        return with_spawn();
    if (strcmp(name, "system") == 0)
        return with_system(program);
    if (strcmp(name, "chain") == 0)
        return chain(atoi(rest[0]));
    if (strcmp(name, "daemon") == 0)
        return make_daemon();
    return 98;
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 98;
    if (strcmp(argv[1], "leaf") == 0) {
        leaf_work((size_t)atoi(argv[2]));
        return 4;
    }
    return run(argv[1], argv + 2, argv[0]);
}
