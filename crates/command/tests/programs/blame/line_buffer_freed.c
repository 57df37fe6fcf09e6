// The buffer that getline() keeps is freed after each line.
// BLAME count_comments
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static int count_comments(FILE *in) {
    int comments = 0;
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, in) >= 0) { // MARK blame
        comments += line[0] == '#';
#ifdef AFTER
        free(line);
        line = NULL;
        size = 0;
#endif
    }
    free(line);
    return comments;
}

int main(void) {
    static char text[4096];
    for (size_t at = 0; at + 8 < sizeof text; at += 7)
        memcpy(text + at, at % 2 ? "# note\n" : "a = 12\n", 7);
    FILE *in = fmemopen(text, strlen(text), "r");
    int comments = count_comments(in);
    fclose(in);
    return comments == 0;
}
