// `workers N` forks N workers, which all lose what they refuse. Each serves 500 requests: `serve`
// allocates and frees 120 bytes in nine of ten of them; `refuse` allocates 120 in the other 50, which
// nobody frees. So each worker leaks 50 blocks, 6,000 bytes, and frees 450 others of `make_reply`.

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char *volatile last;

__attribute__((noinline)) static char *make_reply(void) {
    char *reply = malloc(120);
    reply[0] = 1;
    return reply;
}

__attribute__((noinline)) static void refuse(void) {
    last = make_reply(); // MARK refused
}

__attribute__((noinline)) static void serve(void) {
    last = make_reply();
    free(last);
}

static int work(void) {
    for (int request = 0; request < 500; request++) {
        if (request % 10 == 3)
            refuse();
        else
            serve();
        struct timespec time = {0, 200000};
        nanosleep(&time, NULL);
    }
    return 0;
}

int main(int argc, char **argv) {
    int count = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < count; i++)
        if (fork() == 0)
            return work();
    while (wait(NULL) > 0) {
    }
    return 0;
}
