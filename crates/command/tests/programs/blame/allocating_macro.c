// The macro that quotes a word allocates, where it used an array of the caller's.
// BLAME print_pair
#include <stdlib.h>
#include <string.h>

#ifndef AFTER
#define QUOTED(name, text)                                                                         \
    char name[64];                                                                                 \
    quote(name, text)
#define DONE(name) (void)name
#else
#define QUOTED(name, text)                                                                         \
    char *name = malloc(strlen(text) + 3);                                                         \
    quote(name, text)
#define DONE(name) free(name)
#endif

__attribute__((noinline)) static void quote(char *quoted, const char *text) {
    size_t length = strlen(text);
    quoted[0] = '"';
    memcpy(quoted + 1, text, length);
    quoted[length + 1] = '"';
    quoted[length + 2] = 0;
}

__attribute__((noinline)) static size_t print_pair(const char *text) {
    QUOTED(quoted, text); // MARK blame
    size_t size = strlen(quoted);
    DONE(quoted);
    return size;
}

int main(void) {
    size_t sum = 0;
    for (int i = 0; i < 350; i++)
        sum += print_pair("a word");
    return sum == 0;
}
