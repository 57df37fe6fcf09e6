// blamed: remember
// A loop of 5,000 commands. `remember` keeps each, and all are freed at the end.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct entry {
    struct entry *before;
    char text[200];
};
static struct entry *history;

__attribute__((noinline)) static void remember(const char *command) {
    struct entry *entry = malloc(sizeof *entry);
    entry->before = history;
    strncpy(entry->text, command, sizeof entry->text);
    history = entry;
}

__attribute__((noinline)) static int run(const char *command) {
    char *words = malloc(strlen(command) + 1);
    strcpy(words, command);
    int length = (int)strlen(words);
    free(words);
    return length;
}

int main(void) {
    struct timespec pause = {0, 1000000};
    int sum = 0;
    for (int i = 0; i < 5000; i++) {
        char command[64];
        snprintf(command, sizeof command, "command %d", i);
        sum += run(command);
        remember(command);
        if (i % 25 == 0)
            nanosleep(&pause, NULL);
    }
    while (history) {
        struct entry *before = history->before;
        free(history);
        history = before;
    }
    fprintf(stderr, "%d\n", sum);
    return 0;
}
