/* Prints how many bytes an alternate signal stack must have, beyond what
 * sysconf(_SC_MINSIGSTKSZ) says, for a handler that calls malloc and free: in
 * a thread that allocated before ("used") or in a new one ("new"). Each size
 * is tried in a child, at the edge of memory that cannot be accessed. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static long extra;

static void handler(int number) {
    void *volatile block = malloc(40);
    free(block);
    (void)number;
}

static void *raise_on_a_small_stack(void *argument) {
    size_t page = sysconf(_SC_PAGESIZE), room = 16 * page;
    char *area = mmap(0, page + room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(area + page, room, PROT_READ | PROT_WRITE);
    stack_t alternate = {.ss_sp = area + page, .ss_size = sysconf(_SC_MINSIGSTKSZ) + extra};
    if (sigaltstack(&alternate, 0) != 0)
        abort();
    raise(SIGUSR1);
    return argument;
}

static void *used(void *argument) {
    void *volatile block = malloc(40);
    free(block);
    return raise_on_a_small_stack(argument);
}

int main(int count, char **arguments) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, 0);
    int is_new = count > 1 && strcmp(arguments[1], "new") == 0;
    for (extra = -1024; extra < 16384; extra += 16) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread;
            pthread_create(&thread, 0, is_new ? raise_on_a_small_stack : used, 0);
            pthread_join(thread, 0);
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        if (status == 0) {
            printf("%ld\n", extra);
            return 0;
        }
    }
    return 1;
}
