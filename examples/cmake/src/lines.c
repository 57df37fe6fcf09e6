#include "lines.h"

#include <stdlib.h>
#include <string.h>

static void *allocated(size_t size) {
    void *block = malloc(size);
    if (!block) {
        abort();
    }
    return block;
}

char **split(const char *line, size_t *count) {
    *count = 1;
    for (const char *at = line; *at; at++) {
        *count += *at == ',';
    }
    char **fields = allocated(*count * sizeof *fields);
    for (size_t i = 0; i < *count; i++) {
        size_t length = strcspn(line, ",");
        fields[i] = allocated(length + 1);
        memcpy(fields[i], line, length);
        fields[i][length] = 0;
        line += length + 1;
    }
    return fields;
}

char *join(char *const *fields, size_t count) {
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        size += strlen(fields[i]) + 1;
    }
    char *line = allocated(size);
    char *end = line;
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(fields[i]);
        memcpy(end, fields[i], length);
        end += length;
        *end++ = ',';
    }
    end[-1] = 0;
    return line;
}
