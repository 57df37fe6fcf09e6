// Handles 2,000 requests. `make_reply` allocates a reply, and the caller frees it.
//
// `leaks path`: every tenth request is not valid; `refuse` never frees the reply that it
// makes: 200 blocks.
// `leaks some`: `serve` loses every 50th reply, in an early return: 40 of 2,000 blocks.
// `leaks all`: `note_event` allocates a record in every 20th request, and nobody frees any:
// 100 blocks. The rest is freed.
// `leaks model`: it does so in every 10th of the first 1,400, and what it makes is kept until the end.
// `leaks none`: all replies are freed.
// `leaks table`: all replies are freed, a table of 200 blocks that is made at the start
// is not.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct event {
    int request;
    char text[40];
};
static struct event *last_event;
static char *table[200];

__attribute__((noinline)) static char *make_reply(int request, const char *word) {
    char *reply = malloc(120);
    snprintf(reply, 120, "%s %d", word, request);
    return reply;
}

__attribute__((noinline)) static int refuse(int request) {
    char *reply = make_reply(request, "refused"); // MARK refused
    return (int)strlen(reply);
}

__attribute__((noinline)) static int serve(int request, int is_lossy) {
    char *reply = make_reply(request, "served"); // MARK served
    int length = (int)strlen(reply);
    if (is_lossy && request % 50 == 7)
        return length;
    free(reply);
    return length;
}

__attribute__((noinline)) static void note_event(int request) {
    struct event *event = malloc(sizeof *event); // MARK event
    event->request = request;
    last_event = event;
}

__attribute__((noinline)) static void make_table(void) {
    for (int i = 0; i < 200; i++)
        table[i] = calloc(1, 64);
}

static void pause_us(long us) {
    struct timespec time = {0, us * 1000};
    nanosleep(&time, NULL);
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "none";
    int is_path = !strcmp(kind, "path"), is_some = !strcmp(kind, "some");
    int is_all = !strcmp(kind, "all"), is_model = !strcmp(kind, "model");
    if (!strcmp(kind, "table"))
        make_table();
    char *others[50];
    for (int i = 0; i < 50; i++)
        others[i] = make_reply(i, "other");
    long sent = 0;
    for (int request = 0; request < 2000; request++) {
        if (is_path && request % 10 == 3)
            sent += refuse(request);
        else
            sent += serve(request, is_some);
        if ((is_all && request % 20 == 5) || (is_model && request < 1400 && request % 10 == 5))
            note_event(request);
        pause_us(100);
    }
    for (int i = 0; i < 50; i++)
        free(others[i]);
    fprintf(stderr, "%ld\n", sent);
    return 0;
}
