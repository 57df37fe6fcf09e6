/* Prints what a program can observe of its own state and of the allocator, line by
 * line: `behaviour CASE`. The output must be the same with and without a recording,
 * to the byte. What differs between any two runs (addresses, pids) is not printed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static void *volatile sink;

/* errno before and after calls that succeed and that fail. */
static void say_errno(void) {
    for (int value = 0; value < 3; value++) {
        errno = value;
        void *volatile block = malloc(100);
        printf("malloc %d", errno);
        block = realloc(block, 100000);
        printf(" realloc %d", errno);
        free(block);
        printf(" free %d", errno);
        block = calloc(10, 10);
        printf(" calloc %d", errno);
        free(block);
        block = aligned_alloc(4096, 4096);
        printf(" aligned_alloc %d", errno);
        free(block);
        free(NULL);
        printf(" free(NULL) %d", errno);
        sink = malloc(PTRDIFF_MAX);
        printf(" failed malloc %d\n", errno);
    }
}

/* Signal mask and dispositions, after a handler that allocates. */
static volatile int handled;

static void handler(int number) {
    free(malloc(64));
    handled += number;
}

static void say_signals(void) {
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    printf("handled %d\n", handled);
    free(malloc(10));
    sigset_t blocked, pending;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    sigpending(&pending);
    for (int number = 1; number < 65; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) != 0)
            continue;
        printf("%d: %s flags %x blocked %d pending %d\n", number,
               action.sa_handler == SIG_DFL   ? "default"
               : action.sa_handler == SIG_IGN ? "ignored"
                                              : "handled",
               (unsigned)action.sa_flags, sigismember(&blocked, number),
               sigismember(&pending, number));
    }
    stack_t alternate;
    sigaltstack(NULL, &alternate);
    printf("alternate stack %d %zu\n", alternate.ss_flags, alternate.ss_size);
}

/* Descriptors 0 to 99, and the number that the next file gets. */
static void say_descriptors(void) {
    free(malloc(10));
    for (int number = 0; number < 100; number++)
        printf("%d: %d %d\n", number, fcntl(number, F_GETFD),
               number < 3 ? 0 : fcntl(number, F_GETFL));
    int next = open("/dev/null", O_RDONLY);
    printf("next %d\n", next);
    close(next);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    printf("limit %ju %ju\n", (uintmax_t)limit.rlim_cur, (uintmax_t)limit.rlim_max);
}

static void say_environment(void) {
    for (char **variable = environ; *variable != NULL; variable++)
        if (strncmp(*variable, "LD_PRELOAD=", 11) != 0 &&
            strncmp(*variable, "ALLOTROPE_", 10) != 0)
            puts(*variable);
}

static void say_folder(void) {
    char *path = getcwd(NULL, 0);
    puts(path);
    free(path);
}

static void say_executable(void) {
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    puts(path);
    puts(program_invocation_name);
}

/* Alignment and usable size of every kind of block. The sizes ascend, so every block
 * comes from the top of the heap. The usable size of an aligned block depends on where
 * the heap begins, which differs between any two runs: of those, only whether it is
 * enough. */
static void say_block(const char *call, size_t size, size_t alignment, void *block) {
    printf("%s %zu: usable %zu, aligned %d\n", call, size, malloc_usable_size(block),
           (int)((uintptr_t)block % alignment));
}

static void say_aligned(const char *call, size_t size, size_t alignment, void *block) {
    printf("%s %zu: enough %d, aligned %d\n", call, size, malloc_usable_size(block) >= size,
           (int)((uintptr_t)block % alignment));
}

static void say_blocks(void) {
    for (size_t size = 0; size < 5000; size += size < 200 ? 1 : 97) {
        say_block("malloc", size, 16, malloc(size));
        say_block("calloc", size, 16, calloc(1, size));
        say_block("realloc", size, 16, realloc(malloc(size / 2), size + 1));
    }
    for (size_t alignment = 16; alignment <= 1 << 16; alignment *= 2) {
        void *block = NULL;
        int result = posix_memalign(&block, alignment, 100);
        printf("%d ", result);
        say_aligned("posix_memalign", 100, alignment, block);
        say_aligned("aligned_alloc", alignment, alignment, aligned_alloc(alignment, alignment));
        say_aligned("memalign", 33, alignment, memalign(alignment, 33));
    }
    say_aligned("valloc", 10, 4096, valloc(10));
    say_aligned("pvalloc", 10, 4096, pvalloc(10));
    say_block("mapped", 1 << 20, 16, malloc(1 << 20));
    printf("free block's usable size %zu\n", malloc_usable_size(NULL));
}

/* Calls that fail, and calls for 0 bytes. */
static void say_failures(void) {
    errno = 0;
    void *volatile block = malloc(PTRDIFF_MAX);
    printf("huge malloc %d %d\n", block == NULL, errno);
    errno = 0;
    block = calloc(SIZE_MAX / 2, 3);
    printf("overflowing calloc %d %d\n", block == NULL, errno);
    errno = 0;
    block = reallocarray(NULL, SIZE_MAX / 2, 3);
    printf("overflowing reallocarray %d %d\n", block == NULL, errno);
    char *volatile kept = malloc(100);
    strcpy(kept, "kept");
    errno = 0;
    block = realloc(kept, PTRDIFF_MAX);
    printf("failed realloc %d %d %s\n", block == NULL, errno, kept);
    errno = 0;
    block = realloc(kept, 0);
    printf("realloc to zero %d %d\n", block == NULL, errno);
    block = malloc(0);
    printf("malloc(0) %d\n", block == NULL);
    free(block);
    block = (void *)1;
    errno = 0;
    void *untouched = (void *)1;
    int result = posix_memalign(&untouched, 3, 100);
    printf("posix_memalign of 3: %d %d %d\n", result, errno, untouched == (void *)1);
    result = posix_memalign(&untouched, 64, PTRDIFF_MAX);
    printf("huge posix_memalign: %d %d %d\n", result, errno, untouched == (void *)1);
    errno = 0;
    block = aligned_alloc(64, PTRDIFF_MAX);
    printf("huge aligned_alloc %d %d\n", block == NULL, errno);
    /* 200 MiB more than there is now, whatever else is mapped. */
    struct rlimit limit = {1 << 28, 1 << 28};
    printf("limit %d\n", setrlimit(RLIMIT_DATA, &limit));
    errno = 0;
    block = malloc((size_t)1 << 30);
    printf("malloc beyond the limit %d %d\n", block == NULL, errno);
    errno = 0;
    block = malloc(1 << 20);
    printf("malloc within the limit %d %d\n", block == NULL, errno);
}

/* Limits the address space to 100 MiB more than is in use: blocks of 1 MiB, each
 * mapped with a page for its header, until one fails, then every kind of call.
 * 100 MiB / (1 MiB + 4 KiB) = 99.6. */
static void say_address_space(void) {
    char *volatile kept = malloc(100);
    strcpy(kept, "kept");
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (fscanf(file, "%lu", &pages) != 1)
        _exit(97);
    fclose(file);
    struct rlimit limit = {pages * 4096 + (100 << 20), RLIM_INFINITY};
    printf("limit %d\n", setrlimit(RLIMIT_AS, &limit));
    int count = 0;
    errno = 0;
    while (count < 200 && (sink = malloc(1 << 20)) != NULL)
        count++;
    printf("%d blocks, then %d\n", count, errno);
    errno = 0;
    sink = calloc(1 << 10, 1 << 10);
    printf("calloc %d %d\n", sink == NULL, errno);
    errno = 0;
    sink = realloc(kept, 1 << 20);
    printf("realloc %d %d %s\n", sink == NULL, errno, kept);
    errno = 0;
    sink = aligned_alloc(1 << 12, 1 << 20);
    printf("aligned_alloc %d %d\n", sink == NULL, errno);
    void *untouched = (void *)1;
    errno = 0;
    int result = posix_memalign(&untouched, 1 << 12, 1 << 20);
    printf("posix_memalign %d %d %d\n", result, errno, untouched == (void *)1);
    errno = 0;
    sink = malloc(100);
    printf("malloc of 100 bytes %d %d\n", sink == NULL, errno);
}

/* The allocator's own statistics: the recorder has nothing on the program's heap. */
static void say_statistics(const char *when) {
    struct mallinfo2 info = mallinfo2();
    fprintf(stderr, "%s: arena %zu free chunks %zu mapped %zu %zu used %zu\n", when, info.arena,
            info.ordblks, info.hblks, info.hblkhd, info.uordblks);
}

static void say_allocator(void) {
    say_statistics("start");
    void *blocks[100];
    for (int i = 0; i < 100; i++)
        blocks[i] = malloc(1000);
    say_statistics("100 blocks");
    for (int i = 0; i < 100; i++)
        free(blocks[i]);
    say_statistics("freed");
    fprintf(stderr, "mallopt %d\n", mallopt(M_MMAP_THRESHOLD, 1 << 16));
    sink = malloc(1 << 17);
    say_statistics("mapped");
    free(sink);
    fprintf(stderr, "mallopt %d\n", mallopt(M_PERTURB, 0x5a));
    unsigned char *volatile block = malloc(16);
    fprintf(stderr, "perturbed %x\n", block[8]);
    free(block);
    fprintf(stderr, "malloc_trim %d\n", malloc_trim(0));
    say_statistics("trimmed");
}

/* Statuses of children, as their parent sees them. */
static void say_statuses(void) {
    static const int signals[] = {SIGKILL, SIGTERM, SIGSEGV, SIGUSR1};
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    for (int status = 0; status < 256; status += 51) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            free(malloc(10));
            _exit(status);
        }
        int seen = 0;
        printf("wait %d, ", waitpid(child, &seen, 0) == child);
        printf("status %x\n", (unsigned)seen);
    }
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            free(malloc(10));
            raise(signals[i]);
            _exit(0);
        }
        int seen = 0;
        printf("wait %d, ", waitpid(child, &seen, 0) == child);
        printf("status %x\n", (unsigned)seen);
    }
    int seen = 0;
    printf("no other child: %d", waitpid(-1, &seen, WNOHANG) < 0);
    printf(" %d\n", errno);
}

/* The parent of a daemon whose own parent is gone: init or the nearest subreaper, as
 * for any orphan. */
static void say_parent(void) {
    int ends[2];
    if (pipe(ends) != 0)
        _exit(97);
    pid_t child = fork();
    if (child == 0) {
        pid_t middle = getpid();
        if (fork() > 0)
            _exit(0);
        setsid();
        while (getppid() == middle)
            usleep(1000);
        free(malloc(10));
        pid_t parent = getppid();
        if (write(ends[1], &parent, sizeof parent) != sizeof parent)
            _exit(97);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    pid_t parent = 0;
    if (read(ends[0], &parent, sizeof parent) != sizeof parent)
        _exit(97);
    printf("parent of a daemon: %d\n", (int)parent);
}

/* Threads of the process: only the program's own. */
static void say_threads(void) {
    char line[256];
    free(malloc(10));
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "Threads:", 8) == 0 || strncmp(line, "Name:", 5) == 0 ||
            strncmp(line, "Seccomp:", 8) == 0 || strncmp(line, "NoNewPrivs:", 11) == 0 ||
            strncmp(line, "TracerPid:", 10) == 0)
            fputs(line, stdout);
    fclose(file);
}

static const struct {
    const char *name;
    void (*say)(void);
} cases[] = {
    {"errno", say_errno},           {"signals", say_signals},
    {"descriptors", say_descriptors}, {"environment", say_environment},
    {"folder", say_folder},         {"executable", say_executable},
    {"blocks", say_blocks},         {"failures", say_failures},
    {"address_space", say_address_space}, {"allocator", say_allocator},   {"statuses", say_statuses},
    {"parent", say_parent},         {"threads", say_threads},
};

int main(int argc, char **argv) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (argc == 2 && strcmp(argv[1], cases[i].name) == 0) {
            cases[i].say();
            return 7;
        }
    }
    return 98;
}
