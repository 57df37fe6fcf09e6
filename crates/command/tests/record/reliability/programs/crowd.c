/* More threads or processes at once than a recording has slots for: `crowd threads N`
 * or `crowd children N`. Each of N threads, or of N forked children, makes 10 blocks of 16
 * bytes in `crowded` and keeps them until all have; nothing else allocates in
 * them. What the C library allocates to make them is not in `crowded`. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALONE __attribute__((noipa))

static __thread void *volatile sink;
static pthread_barrier_t gate;

ALONE static void crowded(void) {
    for (int i = 0; i < 10; i++)
        sink = malloc(16);
}

static void *member(void *argument) {
    crowded();
    pthread_barrier_wait(&gate);
    return argument;
}

static int threads(int count) {
    pthread_t *members = malloc((size_t)count * sizeof *members);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 1 << 16);
    pthread_barrier_init(&gate, NULL, (unsigned)count);
    for (int i = 0; i < count; i++)
        if (pthread_create(&members[i], &attributes, member, NULL) != 0)
            _exit(96);
    for (int i = 0; i < count; i++)
        pthread_join(members[i], NULL);
    return 7;
}

/* Each child writes a byte when it is ready; closing the other pipe lets all
 * leave. */
static int children(int count) {
    int ready[2], leave[2];
    char byte = 0;
    if (pipe(ready) != 0 || pipe(leave) != 0)
        return 97;
    for (int i = 0; i < count; i++) {
        pid_t child = fork();
        if (child < 0)
            _exit(96);
        if (child == 0) {
            close(leave[1]);
            crowded();
            if (write(ready[1], &byte, 1) != 1)
                _exit(97);
            while (read(leave[0], &byte, 1) > 0)
                ;
            _exit(3);
        }
        if (read(ready[0], &byte, 1) != 1)
            _exit(97);
    }
    close(leave[1]);
    for (int i = 0; i < count; i++) {
        int status;
        if (wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 3)
            _exit(95);
    }
    return 7;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 98;
    return (strcmp(argv[1], "threads") == 0 ? threads : children)(atoi(argv[2]));
}
