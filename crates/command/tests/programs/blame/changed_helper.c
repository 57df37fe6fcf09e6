// The helper that pads a cell returns a new block to all its callers, where they gave an array.
// BLAME padded
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static char *padded(char *cell, const char *text, size_t width) {
    size_t length = strlen(text);
#ifdef AFTER
    cell = malloc(width + 1); // MARK blame
#endif
    memset(cell, ' ', width);
    memcpy(cell, text, length < width ? length : width);
    cell[width] = 0;
    return cell;
}

static void done(char *cell) {
#ifdef AFTER
    free(cell);
#endif
    (void)cell;
}

__attribute__((noinline)) static size_t print_name(const char *name) {
    char cell[32];
    char *shown = padded(cell, name, 24);
    size_t size = strlen(shown);
    done(shown);
    return size;
}

__attribute__((noinline)) static size_t print_country(const char *country) {
    char cell[32];
    char *shown = padded(cell, country, 12);
    size_t size = strlen(shown);
    done(shown);
    return size;
}

__attribute__((noinline)) static size_t print_year(const char *year) {
    char cell[32];
    char *shown = padded(cell, year, 4);
    size_t size = strlen(shown);
    done(shown);
    return size;
}

int main(void) {
    size_t sum = 0;
    for (int i = 0; i < 150; i++)
        sum += print_name("Lovelace") + print_country("England") + print_year("1815");
    return sum == 0;
}
