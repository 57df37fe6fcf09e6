// The helper that formats messages returns a new block, where it returned an array it owned.
// BLAME message
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noinline, format(printf, 1, 2))) static char *message(const char *format, ...) {
    va_list values;
    va_start(values, format);
#ifndef AFTER
    static char text[200];
    vsnprintf(text, sizeof text, format, values);
#else
    char *text;
    if (vasprintf(&text, format, values) < 0) // MARK blame
        abort();
#endif
    va_end(values);
    return text;
}

static size_t shown(char *text) {
    size_t size = strlen(text);
#ifdef AFTER
    free(text);
#endif
    return size;
}

int main(void) {
    size_t sum = 0;
    for (int i = 0; i < 400; i++)
        sum += shown(message("%d files of %s are read", i, "the project"));
    return sum == 0;
}
