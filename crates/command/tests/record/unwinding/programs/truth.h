/* How these programs state the expected stacks: each prints, on its standard output,
 * how often it allocated how many bytes from which stack, derived from its own loops.
 * Needs no memory from the heap. */
#ifndef TRUTH_H
#define TRUTH_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A call of the function stays a frame of its own. gcc's `noipa` also keeps
 * its callers from knowing what it does. */
#if defined(__clang__)
#define ALONE __attribute__((noinline))
#else
#define ALONE __attribute__((noipa))
#endif

/* After a call that would otherwise be made by a jump. */
#define NO_TAIL_CALL __asm__ volatile("")

/* printf that takes no memory from the heap. */
static void truth_say(const char *format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (write(1, line, length) != length)
        abort();
}

/* `stack COUNT BYTES FRAMES`: COUNT allocations of BYTES together, whose stack
 * shows these functions of the program's own, innermost first. `name*3` stands
 * for a function that calls itself twice. BYTES may be `?`. */
#define EXPECT(count, bytes, ...) \
    (truth_say("stack %ld %ld ", (long)(count), (long)(bytes)), truth_say(__VA_ARGS__), \
     truth_say("\n"))
#define EXPECT_ANY_SIZE(count, ...) \
    (truth_say("stack %ld ? ", (long)(count)), truth_say(__VA_ARGS__), truth_say("\n"))

/* `under COUNT NAME`: all stacks that show NAME make COUNT allocations, and
 * each leads on to the program's start. */
#define EXPECT_UNDER(count, name) truth_say("under %ld %s\n", (long)(count), name)

/* The same for allocations of the C library and others below NAME, of which there may
 * be any number. */
#define EXPECT_OTHERS(name) truth_say("under ? %s\n", name)

/* Threads reuse each other's addresses: now and then several orders of events are
 * possible, and the report counts those events as ambiguous. */
#define EXPECT_THREADS() truth_say("threads\n")

static void *volatile truth_sink;

/* One block, freed at once. */
ALONE static void allocate(size_t bytes) {
    void *block = malloc(bytes);
    truth_sink = block;
    free(block);
    NO_TAIL_CALL;
}

#endif
