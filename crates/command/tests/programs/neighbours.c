/* What a recorded program and other users on the same machine could do to one
 * another: tests/record/neighbours.rs.
 *
 * besieged: starts `scribble` (its own program, recorded too), and meanwhile
 *   allocates and frees 2,000,000 blocks in besieged_work, each of which must
 *   hold what was written to it. Status 7 if all is well.
 * scribble ROUNDS SEED: maps the arena of its own recording from the collector's
 *   /proc/PID/fd and writes random words all over it; prints "sealed" if the
 *   control page cannot be mapped for writing. Status 0.
 * locked: mlockall, then prints how much is locked, in KiB.
 * limited: limits its address space to 64 MiB, then asks for 16 MiB.
 * uncommitted: has the kernel refuse to commit memory (MADV_POPULATE_WRITE fails
 *   with ENOMEM, by a seccomp filter), then allocates 20,000 blocks in
 *   refused_work. Status 7; 96: this kernel has no such request, or no filters.
 * connect NAME: connects to the abstract socket NAME, sends 16 bytes, and prints
 *   how many come back.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t state;

/* xorshift64 (Marsaglia, 2003). */
static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static int arena_file(int which, int flags) {
    unsigned pid, files[2];
    char path[64];
    if (sscanf(getenv("ALLOTROPE_ARENA"), "%u:%u:%u:", &pid, &files[0], &files[1]) != 3) exit(90);
    snprintf(path, sizeof path, "/proc/%u/fd/%u", pid, files[which]);
    return open(path, flags);
}

static int scribble(long rounds, uint64_t seed) {
    state = seed * 2 + 1;
    int control = arena_file(1, O_RDWR);
    if (control >= 0 && mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, control, 0) == MAP_FAILED) puts("sealed");
    int file = arena_file(0, O_RDWR);
    struct stat status;
    if (file < 0 || fstat(file, &status) != 0) exit(91);
    /* The tables and some rings: what is used of a gigabyte. */
    size_t bytes = 16 << 20;
    uint64_t *words = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (words == MAP_FAILED) exit(92);
    size_t tables = 512 << 10;
    for (long round = 0; round < rounds; round++) {
        size_t at = next() % ((round & 1 ? tables : bytes) / 8);
        uint64_t word = next();
        words[at] = round & 2 ? word : round & 4 ? word % 64 : -(word % 64);
    }
    return 0;
}

__attribute__((noinline)) static void besieged_work(void) {
    enum { BLOCKS = 64 };
    uint64_t *blocks[BLOCKS] = {0};
    for (long i = 0; i < 2000000; i++) {
        uint64_t **block = &blocks[i % BLOCKS];
        if (*block && **block != (uint64_t)(i - BLOCKS)) exit(93);
        free(*block);
        *block = malloc(8 + i % 100);
        **block = i;
    }
}

static int besieged(char *self) {
    pid_t child = fork();
    if (child == 0) {
        execl(self, self, "scribble", "3000000", "1", NULL);
        _exit(94);
    }
    int status;
    do besieged_work();
    while (waitpid(child, &status, WNOHANG) == 0);
    return status == 0 ? 7 : 95;
}

static long status_value(const char *name) {
    char line[256];
    long value = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, name, strlen(name))) value = atol(line + strlen(name));
    fclose(file);
    return value;
}

static int locked(void) {
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) return errno == EPERM || errno == ENOMEM ? 96 : 97;
    free(malloc(100));
    printf("%ld\n", status_value("VmLck:"));
    return 0;
}

static int limited(void) {
    struct rlimit limit = {64 << 20, 64 << 20};
    setrlimit(RLIMIT_AS, &limit);
    return malloc(16 << 20) ? 0 : 98;
}

void *volatile refused_block;

__attribute__((noinline)) static void refused_work(void) {
    for (int i = 0; i < 20000; i++) refused_block = malloc(16);
}

static int uncommitted(void) {
    enum { POPULATE_WRITE = 23 };
    static char page[4096] __attribute__((aligned(4096)));
    if (madvise(page, sizeof page, POPULATE_WRITE) != 0) return 96;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, POPULATE_WRITE, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 96;
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return 96;
    refused_work();
    return 7;
}

static int stranger(const char *name) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path + 1, name, strlen(name));
    int peer = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    socklen_t length = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name);
    if (connect(peer, (struct sockaddr *)&address, length) != 0) return 99;
    char bytes[64] = {0};
    send(peer, bytes, 16, MSG_NOSIGNAL);
    ssize_t count = recv(peer, bytes, sizeof bytes, 0);
    printf("%zd\n", count < 0 ? 0 : count);
    return 0;
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    if (!strcmp(what, "besieged")) return besieged(arguments[0]);
    if (!strcmp(what, "scribble")) return scribble(atol(arguments[2]), atol(arguments[3]));
    if (!strcmp(what, "locked")) return locked();
    if (!strcmp(what, "limited")) return limited();
    if (!strcmp(what, "uncommitted")) return uncommitted();
    if (!strcmp(what, "connect")) return stranger(arguments[2]);
    return 2;
}
