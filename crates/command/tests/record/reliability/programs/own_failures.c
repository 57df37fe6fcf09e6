/* A program under a recording that breaks: `own_failures PAIRS [BYTES]`. First
 * 1000 blocks of 20 bytes in `before`, then "ready" on stdout; once a byte can
 * be read from stdin, PAIRS blocks in `after` whose sizes and moments of release
 * are random (the same in every run), so that a trace of them compresses badly:
 * 1 to 4096 bytes, 64 alive at most. Then BYTES bytes of stdout, "done", and
 * status 7. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALONE __attribute__((noipa))

static void *volatile sink;
static void *alive[64];
static uint64_t state = 88172645463325252u;

static uint64_t next(void) { /* xorshift64 */
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

ALONE static void before(void) {
    for (int i = 0; i < 1000; i++)
        sink = malloc(20);
}

ALONE static void after(long pairs) {
    for (long i = 0; i < pairs; i++) {
        uint64_t number = next();
        void **slot = &alive[number % 64];
        free(*slot);
        *slot = malloc(1 + (number >> 20) % 4096);
    }
}

static void put(const char *bytes, size_t count) {
    while (count > 0) {
        ssize_t written = write(1, bytes, count);
        if (written <= 0)
            _exit(97);
        bytes += written;
        count -= (size_t)written;
    }
}

int main(int argc, char **argv) {
    static char line[4096];
    char byte;
    before();
    put("ready\n", 6);
    if (argc < 2 || read(0, &byte, 1) != 1)
        return 97;
    after(atol(argv[1]));
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\n';
    for (long bytes = argc > 2 ? atol(argv[2]) : 0; bytes > 0; bytes -= (long)sizeof line)
        put(line, sizeof line);
    put("done\n", 5);
    return 7;
}
