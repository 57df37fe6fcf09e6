// Each token is copied, where its start and length were enough.
// BLAME is_keyword
#include <stdlib.h>
#include <string.h>

static const char *const keywords[] = {"if", "else", "while", "return"};

__attribute__((noinline)) static int is_keyword(const char *start, size_t length) {
    int is = 0;
#ifdef AFTER
    char *token = strndup(start, length); // MARK blame
#endif
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
#ifndef AFTER
        is |= strncmp(keywords[i], start, length) == 0 && !keywords[i][length];
#else
        is |= strcmp(keywords[i], token) == 0;
    free(token);
#endif
    return is;
}

int main(void) {
    int found = 0;
    for (int round = 0; round < 100; round++)
        for (const char *at = "if ready return left else wait"; *at; at += strspn(at, " ")) {
            size_t length = strcspn(at, " ");
            found += is_keyword(at, length);
            at += length;
        }
    return found == 0;
}
