// blamed: add_char
// Builds 200 texts of 300 characters, a character at a time.
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) static char *add_char(char *text, size_t *length, char c) {
    text = realloc(text, *length + 2);
    text[(*length)++] = c;
    text[*length] = 0;
    return text;
}

int main(void) {
    size_t sum = 0;
    for (int i = 0; i < 200; i++) {
        char *text = NULL;
        size_t length = 0;
        for (int j = 0; j < 300; j++)
            text = add_char(text, &length, (char)('a' + j % 26));
        sum += length;
        free(text);
    }
    fprintf(stderr, "%zu\n", sum);
    return 0;
}
