// Each line is duplicated to be cut up, where it was only looked through.
// BLAME count_words
#include <stdlib.h>
#include <string.h>

static int count_words(const char *line) {
    int words = 0;
#ifndef AFTER
    for (const char *at = line; *at; at += strspn(at, " ")) {
        at += strcspn(at, " ");
        words++;
    }
#else
    char *copy = strdup(line); // MARK blame
    char *rest = copy;
    for (char *word; (word = strsep(&rest, " "));)
        words += *word != 0;
    free(copy);
#endif
    return words;
}

int main(void) {
    int sum = 0;
    for (int i = 0; i < 800; i++)
        sum += count_words("the quick brown fox jumps over the lazy dog");
    return sum == 0;
}
