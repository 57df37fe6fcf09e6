// blamed: reject
// Reads 3,000 lines. `parse` copies a line and `reject` forgets the copies of the lines
// that are not valid, every 15th.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *copy(const char *line) {
    char *text = malloc(strlen(line) + 1);
    strcpy(text, line);
    return text;
}

__attribute__((noinline)) static int reject(const char *line) {
    char *text = copy(line);
    return text[0] == '#';
}

__attribute__((noinline)) static int parse(const char *line) {
    char *text = copy(line);
    int length = (int)strlen(text);
    free(text);
    return length;
}

int main(void) {
    int sum = 0;
    for (int i = 0; i < 3000; i++) {
        char line[80];
        snprintf(line, sizeof line, "%s line number %d of a file", i % 15 ? "a" : "#", i);
        sum += line[0] == '#' ? reject(line) : parse(line);
    }
    fprintf(stderr, "%d\n", sum);
    return 0;
}
