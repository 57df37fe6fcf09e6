// Builds and empties a list of words, over and over: many small blocks, freed in the order of
// their allocation.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct word {
    struct word *next;
    char *text;
};

int main(void) {
    unsigned long letters = 0;
    for (int round = 0; round < 100; round++) {
        struct word *first = NULL;
        for (int i = 0; i < 100; i++) {
            struct word *word = malloc(sizeof *word);
            word->text = calloc(1, 8 + i % 60);
            sprintf(word->text, "w%d", i);
            word->next = first;
            first = word;
        }
        while (first != NULL) {
            struct word *next = first->next;
            letters += strlen(first->text);
            free(first->text);
            free(first);
            first = next;
        }
    }
    printf("%lu letters\n", letters);
    return 0;
}
