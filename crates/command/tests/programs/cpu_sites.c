// For `allotrope cpu`: nearly all CPU time passes in the loops of one function. Its argument
// names it: `pairs` calls malloc and free, `grow` calls realloc, `none` calls nothing,
// `threads` runs `pairs` in two threads, and `child` in a child process.
// The second argument, if any, is the number of rounds in units of 100,000.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static long rounds = 10000000;
static void *volatile block;
static volatile unsigned long sum;

static void *pairs(void *unused) {
    for (long i = 0; i < rounds; i++) {
        void *own = malloc(40); // MARK malloc
        *(volatile char *)own = 1;
        free(own); // MARK free
    }
    return unused;
}

static void grow(void) {
    for (long i = 0; i < rounds / 4; i++) {
        block = realloc(block, 1000 + (i & 1) * 5000); // MARK realloc
    }
    free(block);
}

static void none(void) {
    for (long i = 0; i < rounds * 10; i++) {
        sum += i;
    }
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "none";
    if (argc > 2) {
        rounds = atol(argv[2]) * 100000;
    }
    if (strcmp(what, "pairs") == 0) {
        pairs(NULL);
    } else if (strcmp(what, "grow") == 0) {
        grow();
    } else if (strcmp(what, "threads") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, pairs, NULL);
        pairs(NULL);
        pthread_join(thread, NULL);
    } else if (strcmp(what, "child") == 0) {
        if (fork() == 0) {
            pairs(NULL);
            _exit(0);
        }
        wait(NULL);
    } else {
        none();
    }
    return 7;
}
