/* Programs of many kinds whose figures every command must say alike: `figures CASE [N]`.
 * What they allocate does not matter, but `resident`, `resident_stacks` and `mixed_lives`, whose truth is stated
 * above them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 512 };

static __thread uint64_t state;

static unsigned below(unsigned limit) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % limit;
}

__attribute__((noinline)) static void *small(void) { return malloc(1 + below(64)); }
__attribute__((noinline)) static void *large(void) { return calloc(1 + below(40), 1000); }
__attribute__((noinline)) static void *aligned(void) { return aligned_alloc(64, 64 * (1 + below(9))); }

/* Makes, replaces and frees blocks by chance; some stay. */
static void *work(void *argument) {
    void *slots[SLOTS] = {0};
    int calls = (int)(intptr_t)argument;
    for (int i = 0; i < calls; i++) {
        void **slot = &slots[below(SLOTS)];
        switch (below(5)) {
        case 0: free(*slot); *slot = small(); break;
        case 1: free(*slot); *slot = large(); break;
        case 2: free(*slot); *slot = aligned(); break;
        case 3: *slot = realloc(*slot, 1 + below(3000)); break;
        default: free(*slot); *slot = NULL; free(small());
        }
    }
    for (int i = 0; i < SLOTS / 2; i++)
        free(slots[i]);
    return slots[SLOTS - 1];
}

static void threads(int count, int calls) {
    pthread_t ids[256];
    for (int i = 0; i < count; i++)
        pthread_create(&ids[i], NULL, work, (void *)(intptr_t)(calls + i));
    for (int i = 0; i < count; i++) {
        void *left;
        pthread_join(ids[i], &left);
        free(left);
    }
}

/* Children that free what they inherited, and work on their own. */
static void forks(int count, int calls) {
    void *blocks[16];
    for (int i = 0; i < 16; i++)
        blocks[i] = large();
    for (int i = 0; i < count; i++)
        if (fork() == 0) {
            for (int j = 0; j <= i % 16; j++)
                free(blocks[j]);
            state = (uint64_t)i;
            work((void *)(intptr_t)calls);
            if (i == 1)
                kill(getpid(), SIGKILL);
            exit(i);
        }
    while (wait(NULL) > 0)
        ;
}

/* A tree of calls with 2^depth stacks. */
__attribute__((noinline)) static void *deep(int depth, unsigned path);
__attribute__((noinline)) static void *left(int depth, unsigned path) {
    void *block = deep(depth, path);
    asm volatile("");
    return block;
}
__attribute__((noinline)) static void *right(int depth, unsigned path) {
    void *block = deep(depth, path);
    asm volatile("");
    return block;
}
static void *deep(int depth, unsigned path) {
    void *block = depth == 0 ? malloc(1 + below(1000)) : path & 1 ? left(depth - 1, path >> 1) : right(depth - 1, path >> 1);
    asm volatile("");
    return block;
}

/* 2^depth stacks, each of which has one block, and replaces it in some of so many rounds. */
static void many_sites(int depth, int rounds) {
    unsigned sites = 1u << depth;
    void **blocks = calloc(sites, sizeof *blocks);
    for (int round = 0; round < rounds; round++)
        for (unsigned i = 0; i < sites; i++) {
            if (below(3) == 0) {
                free(blocks[i]);
                blocks[i] = NULL;
            }
            if (!blocks[i])
                blocks[i] = deep(depth, i);
        }
}

/* One call makes 20 blocks that live through the run, and then 50,000 that are freed at once. The
 * lifetimes of these do not overlap, so together they are no longer than the run. */
static void mixed_lives(void) {
    void *kept[20];
    for (int i = 0; i < 50020; i++) {
        void *block = malloc(100);
        if (i < 20)
            kept[i] = block;
        else
            free(block);
        if (i == 19)
            usleep(300 * 1000);
    }
    for (int i = 0; i < 20; i++)
        free(kept[i]);
}

/* Frees three blocks that the C library's own malloc has made, which nobody records. */
static void not_seen(void) {
    void *library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    void *(*own_malloc)(size_t) = (void *(*)(size_t))dlsym(library, "malloc");
    for (int i = 0; i < 3; i++)
        free(own_malloc(100));
}

/* 100 threads that make 40,000 pairs of calls each, which fills the recorder's buffer of each
 * thread. They live until all have done this; then the program writes its resident set in
 * KiB. */
static pthread_barrier_t done, over;
static void *pairs(void *argument) {
    for (int i = 0; i < 40000; i++)
        free(malloc(100));
    pthread_barrier_wait(&done);
    pthread_barrier_wait(&over);
    return argument;
}
/* The same with 4,096 stacks in each thread, which fills what the recorder keeps of each thread. It
 * lives until its input ends. */
static void *stacks(void *argument) {
    for (unsigned i = 0; i < 4096; i++)
        free(deep(12, i));
    pthread_barrier_wait(&done);
    pthread_barrier_wait(&over);
    return argument;
}
static void resident(void *(*work)(void *)) {
    pthread_t ids[100];
    pthread_barrier_init(&done, NULL, 101);
    pthread_barrier_init(&over, NULL, 101);
    for (int i = 0; i < 100; i++)
        pthread_create(&ids[i], NULL, work, NULL);
    pthread_barrier_wait(&done);
    /* The collector reads it ten times a second. */
    usleep(700 * 1000);
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status))
        if (strncmp(line, "VmRSS:", 6) == 0)
            fputs(line + 6, stdout);
    fclose(status);
    fflush(stdout);
    if (work == stacks)
        while (getchar() != EOF)
            ;
    pthread_barrier_wait(&over);
    for (int i = 0; i < 100; i++)
        pthread_join(ids[i], NULL);
}

int main(int count, char **words) {
    const char *what = words[1];
    int number = count > 2 ? atoi(words[2]) : 3000;
    int calls = count > 3 ? atoi(words[3]) : 3000;
    state = (uint64_t)number;
    if (!strcmp(what, "work")) work((void *)(intptr_t)number);
    else if (!strcmp(what, "phases"))
        for (int i = 0; i < 8; i++) {
            work((void *)(intptr_t)number);
            usleep(20 * 1000);
        }
    else if (!strcmp(what, "threads")) threads(number, calls);
    else if (!strcmp(what, "forks")) forks(number, calls);
    else if (!strcmp(what, "killed")) {
        work((void *)(intptr_t)number);
        kill(getpid(), SIGKILL);
    } else if (!strcmp(what, "exec")) {
        work((void *)(intptr_t)number);
        execl("/proc/self/exe", words[0], "work", "500", NULL);
    } else if (!strcmp(what, "many_sites")) many_sites(number, calls);
    else if (!strcmp(what, "mixed_lives")) mixed_lives();
    else if (!strcmp(what, "not_seen")) not_seen();
    else if (!strcmp(what, "resident")) resident(pairs);
    else if (!strcmp(what, "resident_stacks")) resident(stacks);
    else return 2;
    return 0;
}
