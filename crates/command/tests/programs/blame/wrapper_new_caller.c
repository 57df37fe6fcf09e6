// The parser makes a token for each blank, too, with the allocator that all others use.
// BLAME read_blank
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct token {
    int kind;
    const char *start;
    struct token *next;
};

__attribute__((noinline)) static void *xmalloc(size_t size) {
    void *block = malloc(size);
    if (!block) {
        fputs("out of memory\n", stderr);
        exit(1);
    }
    return block;
}

static struct token *tokens;

__attribute__((noinline)) static void push(struct token *token, int kind, const char *start) {
    *token = (struct token){kind, start, tokens};
    tokens = token;
}

__attribute__((noinline)) static const char *read_name(const char *at) {
    push(xmalloc(sizeof(struct token)), 1, at);
    while (isalpha((unsigned char)*at))
        at++;
    return at;
}

__attribute__((noinline)) static const char *read_number(const char *at) {
    push(xmalloc(sizeof(struct token)), 2, at);
    while (isdigit((unsigned char)*at))
        at++;
    return at;
}

__attribute__((noinline)) static const char *read_sign(const char *at) {
    push(xmalloc(sizeof(struct token)), 3, at);
    return at + 1;
}

__attribute__((noinline)) static const char *read_blank(const char *at) {
#ifdef AFTER
    push(xmalloc(sizeof(struct token)), 4, at); // MARK blame
#endif
    while (*at == ' ')
        at++;
    return at;
}

int main(void) {
    for (int round = 0; round < 60; round++) {
        const char *at = "width = 2 * border + columns * 80 ;";
        while (*at)
            at = isalpha((unsigned char)*at)   ? read_name(at)
                 : isdigit((unsigned char)*at) ? read_number(at)
                 : *at == ' '                  ? read_blank(at)
                                               : read_sign(at);
        for (struct token *next; tokens; tokens = next) {
            next = tokens->next;
            free(tokens);
        }
    }
    return 0;
}
