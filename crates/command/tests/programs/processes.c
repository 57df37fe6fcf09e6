/* Processes that fork, exec and spawn: `processes CASE…`. No stdio. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALONE __attribute__((noipa))

static void *volatile sink;
extern char **environ;
static const char *self = "/proc/self/exe";

static int status_of(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* `leaf N STATUS [MS]`: N blocks of N bytes, all leaked; MS milliseconds of
 * life after that. */
ALONE static void leaf_work(size_t count) {
    for (size_t i = 0; i < count; i++)
        sink = malloc(count);
}

/* `inherited`: the parent has 10 blocks of 100 bytes when it forks. The child
 * frees 4 of them, allocates 3 of 50 and frees the last, and ends with 3:
 *   child: 10 inherited of 1000 bytes, 4 of them deallocated; 3 allocations of
 *   150 bytes, 2 leaked of 100; peak 150, of 3 blocks.
 *   parent: 10 allocations, 10 deallocations, nothing leaked; peak 1000. */
ALONE static void parent_work(void **blocks) {
    for (int i = 0; i < 10; i++)
        blocks[i] = malloc(100);
}

ALONE static void child_work(void **blocks) {
    for (int i = 0; i < 4; i++)
        free(blocks[i]);
    for (int i = 0; i < 3; i++)
        sink = malloc(50);
    free(sink);
}

static int inherited(void) {
    void *blocks[10];
    parent_work(blocks);
    pid_t child = fork();
    if (child == 0) {
        child_work(blocks);
        _exit(3);
    }
    if (status_of(child) != 3)
        return 97;
    for (int i = 0; i < 10; i++)
        free(blocks[i]);
    return 0;
}

/* `generations`: a child of a child of a child; each of the four allocates one
 * block more than its parent did, of 10 bytes, in `generation_work`:
 * 1, 2, 3, 4. Inherited: 0, 1, 1+2, 1+2+3. */
ALONE static void generation_work(int count) {
    for (int i = 0; i < count; i++)
        sink = malloc(10);
}

static int generations(void) {
    for (int generation = 1;; generation++) {
        generation_work(generation);
        if (generation == 4)
            return 0;
        pid_t child = fork();
        if (child != 0)
            return status_of(child);
    }
}

/* `threaded`: four threads allocate without end while the main thread forks 20
 * children; each child allocates 7 blocks of 11 bytes in `forked_work`. */
static atomic_int stop;

ALONE static void *noise(void *argument) {
    while (!atomic_load(&stop)) {
        void *block = malloc(64);
        *(volatile char *)block = 1;
        free(block);
    }
    return argument;
}

ALONE static void forked_work(void) {
    for (int i = 0; i < 7; i++)
        sink = malloc(11);
}

static int threaded(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, noise, NULL);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0) {
            forked_work();
            _exit(0);
        }
        if (status_of(child) != 0)
            return 97;
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

/* `chain N`: N blocks of N bytes in `leaf_work`, then itself again in the same
 * process with N - 1, down to 1, which ends with 5. */
static int chain(int count) {
    leaf_work((size_t)count);
    if (count == 1)
        return 5;
    char next[2] = {(char)('0' + count - 1), 0};
    char *arguments[] = {"processes", "chain", next, NULL};
    execv(self, arguments);
    return 97;
}

/* `vfork`, `spawn`, `system`: one block of 9 bytes in `starter_work`, then a
 * child that is `leaf 6 4`. */
ALONE static void starter_work(void) {
    sink = malloc(9);
}

static char *leaf_arguments[] = {"processes", "leaf", "6", "4", NULL};

static int with_vfork(void) {
    starter_work();
    pid_t child = vfork();
    if (child == 0) {
        execv(self, leaf_arguments);
        _exit(97);
    }
    return status_of(child);
}

static int with_spawn(void) {
    pid_t child;
    starter_work();
    if (posix_spawn(&child, self, NULL, NULL, leaf_arguments, environ) != 0)
        return 97;
    return status_of(child);
}

static int with_system(char *program) {
    char line[4096] = "";
    strcat(strcat(line, program), " leaf 6 4; true && exit 4");
    starter_work();
    return WEXITSTATUS(system(line));
}

/* `bare`: the child of a fork execs with an empty environment: `leaf 6 4 1500`,
 * long enough for the collector to notice it. */
static int bare(void) {
    char *nothing[] = {NULL};
    char *arguments[] = {"processes", "leaf", "6", "4", "1500", NULL};
    starter_work();
    pid_t child = fork();
    if (child == 0) {
        execve(self, arguments, nothing);
        _exit(97);
    }
    return status_of(child);
}

/* `orphan`: the child outlives the parent: `leaf`-like work after 200 ms. */
static int orphan(void) {
    starter_work();
    if (fork() == 0) {
        usleep(200000);
        forked_work();
        _exit(0);
    }
    return 0;
}

/* `lingering`: the child lives for a minute after the parent ended with 6; it
 * holds none of the standard streams. Before that it allocates like the others
 * in `forked_work`. */
static int lingering(void) {
    starter_work();
    if (fork() == 0) {
        forked_work();
        close(0);
        close(1);
        close(2);
        sleep(60);
        _exit(0);
    }
    return 6;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "leaf") == 0) {
        leaf_work((size_t)atoi(argv[2]));
        usleep(argc > 4 ? 1000 * (useconds_t)atoi(argv[4]) : 0);
        return atoi(argv[3]);
    }
    if (strcmp(name, "inherited") == 0)
        return inherited();
    if (strcmp(name, "generations") == 0)
        return generations();
    if (strcmp(name, "threaded") == 0)
        return threaded();
    if (strcmp(name, "chain") == 0)
        return chain(atoi(argv[2]));
    if (strcmp(name, "vfork") == 0)
        return with_vfork();
    if (strcmp(name, "spawn") == 0)
        return with_spawn();
    if (strcmp(name, "system") == 0)
        return with_system(argv[0]);
    if (strcmp(name, "bare") == 0)
        return bare();
    if (strcmp(name, "orphan") == 0)
        return orphan();
    if (strcmp(name, "lingering") == 0)
        return lingering();
    return 98;
}
