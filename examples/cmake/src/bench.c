// A test for each word. Without Allotrope it is an ordinary test program.
#include "lines.h"

#include <stdlib.h>
#include <string.h>

#include "allotrope.h"

enum { ITERATIONS = 1000 };

static const char line[] = "some,fields,of,a,line";  // 5 fields, 22 bytes with the zero
static int failures;

// 1000 × (1 + 5) allocations.
static void split_many(void *unused) {
    (void)unused;
    for (int i = 0; i < ITERATIONS; i++) {
        size_t count;
        char **fields = split(line, &count);
        failures += count != 5 || strcmp(fields[1], "fields") != 0;
        while (count > 0) {
            free(fields[--count]);
        }
        free(fields);
    }
}

// 1000 allocations of 22 bytes.
static void join_many(void *unused) {
    (void)unused;
    char *const fields[] = {"some", "fields", "of", "a", "line"};
    for (int i = 0; i < ITERATIONS; i++) {
        char *joined = join(fields, 5);
        failures += strcmp(joined, line) != 0;
        free(joined);
    }
}

int main(int count, char **words) {
    const char *test = count > 1 ? words[1] : "";
    if (strcmp(test, "split") == 0) {
        allotrope_measure(test, 1, 3, ITERATIONS, split_many, NULL);
    } else if (strcmp(test, "join") == 0) {
        allotrope_measure(test, 1, 3, ITERATIONS, join_many, NULL);
    } else {
        return 2;
    }
    return failures != 0;
}
