// Each message is written to a memory stream of its own, where it went to an array.
// BLAME message_size
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>

static size_t message_size(int id) {
    size_t size;
#ifndef AFTER
    char text[128];
    size = snprintf(text, sizeof text, "message %d has arrived", id);
#else
    char *text;
    FILE *stream = open_memstream(&text, &size); // MARK blame
    fprintf(stream, "message %d has arrived", id);
    fclose(stream);
    free(text);
#endif
    return size;
}

int main(void) {
    size_t sum = 0;
    for (int id = 0; id < 250; id++)
        sum += message_size(id);
    return sum == 0;
}
