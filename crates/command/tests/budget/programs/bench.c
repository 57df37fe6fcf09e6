// Each case of this program is a test of `allotrope test`; what it allocates
// follows from its loop. WORSE and BETTER compile in a change of the code.
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile kept;

static void *take(size_t size) {
    return malloc(size); // MARK take
}

// 1000 allocations of 16 bytes, nothing remains.
static void encode(void) {
    for (int i = 0; i < 1000; i++) {
        free(take(16));
    }
#ifdef WORSE
    // 50 more, which are never freed.
    for (int i = 0; i < 50; i++) {
        kept = malloc(7); // MARK worse
    }
#endif
}

// 500 allocations of 24 bytes, or 400.
static void decode(void) {
#ifdef BETTER
    int times = 400;
#else
    int times = 500;
#endif
    for (int i = 0; i < times; i++) {
        free(take(24));
    }
}

static void *fluctuating_thread(void *argument) {
    for (long i = 0; i < (long)argument; i++) {
        free(malloc(32)); // MARK fluctuating
    }
    return NULL;
}

// The number of starts is in a file; with each start, the thread makes 10 more
// allocations.
static void fluctuate(void) {
    FILE *file = fopen("count", "a");
    fputc('x', file);
    fclose(file);
    file = fopen("count", "r");
    long starts = 0;
    while (fgetc(file) != EOF) {
        starts++;
    }
    fclose(file);
    pthread_t thread;
    pthread_create(&thread, NULL, fluctuating_thread, (void *)(10 * starts));
    pthread_join(thread, NULL);
    // The third start leaves something behind.
    if (starts == 3) {
        kept = malloc(99); // MARK leaked
    }
}

// As many allocations as the file "list" has in the line of this start; each start
// takes the next line, and the last line is for all further ones.
static void listed(void) {
    FILE *file = fopen("count", "a+");
    fputc('x', file);
    long starts = ftell(file), number = 0;
    fclose(file);
    file = fopen("list", "r");
    for (long i = 0; i < starts && fscanf(file, "%ld", &number) == 1; i++) {
    }
    fclose(file);
    for (long i = 0; i < number; i++) {
        free(take(40));
    }
}

// As many allocations as bytes can be read from standard input.
static void input(void) {
    char byte;
    while (read(0, &byte, 1) == 1) {
        free(take(8));
    }
}

// Two children die, each after an allocation: one by a signal, one with status 3.
static void children(void) {
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            free(take(8));
            if (i == 0) {
                raise(SIGKILL);
            }
            _exit(3);
        }
        waitpid(child, NULL, 0);
    }
}

int main(int count, char **words) {
    const char *name = count > 1 ? words[1] : "";
    if (!strcmp(name, "encode")) {
        encode();
    } else if (!strcmp(name, "decode")) {
        decode();
    } else if (!strcmp(name, "fluctuate")) {
        fluctuate();
    } else if (!strcmp(name, "listed")) {
        listed();
    } else if (!strcmp(name, "input")) {
        input();
    } else if (!strcmp(name, "children")) {
        children();
    } else if (!strcmp(name, "crash")) {
        printf("about to crash\n");
        fflush(stdout);
        raise(SIGSEGV);
    } else if (!strcmp(name, "status")) {
        return 7;
    } else if (!strcmp(name, "hang")) {
        for (;;) {
            pause();
        }
    } else if (!strcmp(name, "pipe")) {
        kept = malloc(1);
        int ends[2];
        if (pipe(ends) == 0) {
            close(ends[0]);
            return write(ends[1], "x", 1) == 1;
        }
    }
    return 0;
}
