/* allotrope.h: what a program tells Allotrope, the heap profiler, about itself.
 *
 * One header for C (C99 and later) and C++ (C++11 and later) with nothing to
 * link. Under `allotrope record` or `allotrope test` these functions find the
 * recorder in their process; anywhere else they do nothing, except that what
 * is to be measured is still called. Without the recorder a call costs a load
 * and a comparison.
 *
 *     #include "allotrope.h"
 *
 *     uint64_t window = allotrope_open("encode", 1000, 0);
 *     encode_a_thousand_times();
 *     allotrope_window_close(window, 0);
 *
 *     allotrope_measure("encode", 1, 10, 1000, encode_a_thousand_times, context);
 *
 *     allotrope::measure("encode", 1000, [&] { return encode(); });     // C++
 *
 * The recorder is looked for through a weak reference to dlsym, so that the
 * header needs no -ldl and works in programs that are linked statically, where
 * there is no dlsym: it then does nothing. With ALLOTROPE_DISABLE defined it
 * does nothing at all.
 *
 * `allotrope client-header FOLDER` writes this file.
 */
#ifndef ALLOTROPE_H
#define ALLOTROPE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Version of the functions that the recorder exports. */
#define ALLOTROPE_ABI 1u

/* Flags of a window. */
/* Only what the opening thread does is in it. */
#define ALLOTROPE_THIS_THREAD 1u
/* Wait until the other threads are quiet: before it opens, before it closes. */
#define ALLOTROPE_WAIT_FOR_QUIET 2u
/* Compare the open file descriptors at its ends. */
#define ALLOTROPE_COMPARE_DESCRIPTORS 4u

/* What allotrope_recording() gives. */
#define ALLOTROPE_NOT_RECORDING 0u
#define ALLOTROPE_RECORDS_STACKS 1u
#define ALLOTROPE_RECORDS_COUNTS 2u

#if !defined(ALLOTROPE_DISABLE) && defined(__linux__) && defined(__GNUC__)
#define ALLOTROPE_ENABLED_ 1
#endif

#if defined(__GNUC__)
/* Inlined always: a recorded stack begins in the function that calls. */
#define ALLOTROPE_INLINE_ static inline __attribute__((always_inline))
#define ALLOTROPE_COLD_ static __attribute__((noinline, cold, unused))
#else
#define ALLOTROPE_INLINE_ static inline
#define ALLOTROPE_COLD_ static inline
#endif

#ifdef __cplusplus
#define ALLOTROPE_NULL_ nullptr
#define ALLOTROPE_CAST_(type, value) static_cast<type>(value)
#define ALLOTROPE_FUNCTION_(type, address) \
    reinterpret_cast<type>(reinterpret_cast<uintptr_t>(address))
#else
#define ALLOTROPE_NULL_ NULL
#define ALLOTROPE_CAST_(type, value) ((type)(value))
#define ALLOTROPE_FUNCTION_(type, address) ((type)(uintptr_t)(address))
#endif

/* ---- Finding the recorder ---------------------------------------------- */

#ifdef ALLOTROPE_ENABLED_

/* A weakref, not a weak declaration: it leaves the strength of the program's
 * own references to dlsym in the same file as it is. */
static void *allotrope_dlsym_(void *, const char *) __attribute__((weakref("dlsym")));

enum {
    ALLOTROPE_RECORDING_ = 0,
    ALLOTROPE_WINDOW_OPEN_,
    ALLOTROPE_WINDOW_CLOSE_,
    ALLOTROPE_QUIET_,
    ALLOTROPE_OPT_OUT_,
    ALLOTROPE_POOL_ALLOCATION_,
    ALLOTROPE_POOL_DEALLOCATION_,
    ALLOTROPE_POOL_REALLOCATION_START_,
    ALLOTROPE_POOL_REALLOCATION_END_,
    ALLOTROPE_FUNCTIONS_
};

enum { ALLOTROPE_UNKNOWN_ = 0, ALLOTROPE_ABSENT_ = 1, ALLOTROPE_PRESENT_ = 2 };

/* Looks every function up, so that no look-up falls into a window. Several
 * threads may do it at once: they find the same. */
ALLOTROPE_COLD_ int allotrope_find_(void **functions, int *state)
{
    static const char *const names[ALLOTROPE_FUNCTIONS_] = {
        "allotrope_recording",
        "allotrope_window_open",
        "allotrope_window_close",
        "allotrope_quiet",
        "allotrope_opt_out",
        "allotrope_pool_allocation",
        "allotrope_pool_deallocation",
        "allotrope_pool_reallocation_start",
        "allotrope_pool_reallocation_end",
    };
    int found = ALLOTROPE_ABSENT_;
    int index;
    /* RTLD_DEFAULT is the null pointer on Linux. */
    if (allotrope_dlsym_ && allotrope_dlsym_(ALLOTROPE_NULL_, "allotrope_abi")) {
        for (index = 0; index < ALLOTROPE_FUNCTIONS_; index++) {
            void *function = allotrope_dlsym_(ALLOTROPE_NULL_, names[index]);
            __atomic_store_n(&functions[index], function, __ATOMIC_RELAXED);
        }
        found = ALLOTROPE_PRESENT_;
    }
    __atomic_store_n(state, found, __ATOMIC_RELEASE);
    return found;
}

/* The address of one of the recorder's functions; null without it. */
ALLOTROPE_INLINE_ void *allotrope_function_(int index)
{
    static void *functions[ALLOTROPE_FUNCTIONS_];
    static int state;
    int found = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
    if (__builtin_expect(found == ALLOTROPE_UNKNOWN_, 0)) {
        found = allotrope_find_(functions, &state);
    }
    if (found != ALLOTROPE_PRESENT_) {
        return ALLOTROPE_NULL_;
    }
    return __atomic_load_n(&functions[index], __ATOMIC_RELAXED);
}

/* Calls one of the recorder's functions, or goes on. */
#define ALLOTROPE_CALL_(index, type, arguments)                \
    do {                                                       \
        void *function_ = allotrope_function_(index);          \
        if (function_) {                                       \
            ALLOTROPE_FUNCTION_(type, function_) arguments;    \
        }                                                      \
    } while (0)
/* Gives its result, or goes on. */
#define ALLOTROPE_RETURN_(index, type, arguments)                  \
    do {                                                           \
        void *function_ = allotrope_function_(index);              \
        if (function_) {                                           \
            return ALLOTROPE_FUNCTION_(type, function_) arguments; \
        }                                                          \
    } while (0)

#else

#define ALLOTROPE_CALL_(index, type, arguments) \
    do {                                        \
    } while (0)
#define ALLOTROPE_RETURN_(index, type, arguments) \
    do {                                          \
    } while (0)

#endif /* ALLOTROPE_ENABLED_ */

/* ---- What is recorded --------------------------------------------------- */

/* Whether what this thread does is being recorded and counts in windows: one of
 * ALLOTROPE_NOT_RECORDING, ALLOTROPE_RECORDS_STACKS, ALLOTROPE_RECORDS_COUNTS. */
ALLOTROPE_INLINE_ uint32_t allotrope_recording(void)
{
    ALLOTROPE_RETURN_(ALLOTROPE_RECORDING_, uint32_t (*)(void), ());
    return ALLOTROPE_NOT_RECORDING;
}

/* Opens a window, a named span of the program, and gives its number for the
 * closing; 0 if it is not recorded. The name is UTF-8, of which up to 255 bytes
 * are kept. `iterations`: how often the window does what it measures; 0 if that
 * has no meaning. Windows may nest and overlap. */
ALLOTROPE_INLINE_ uint64_t allotrope_window_open(const char *name, size_t name_length,
                                                 uint64_t iterations, uint32_t flags)
{
    (void)name, (void)name_length, (void)iterations, (void)flags;
    ALLOTROPE_RETURN_(ALLOTROPE_WINDOW_OPEN_,
                      uint64_t (*)(const char *, size_t, uint64_t, uint32_t),
                      (name, name_length, iterations, flags));
    return 0;
}

/* The same with a name that ends in a zero. */
ALLOTROPE_INLINE_ uint64_t allotrope_open(const char *name, uint64_t iterations, uint32_t flags)
{
    return allotrope_window_open(name, strlen(name), iterations, flags);
}

/* Closes it. Of the flags only ALLOTROPE_WAIT_FOR_QUIET counts. Of window 0,
 * and of one that was closed, nothing happens. */
ALLOTROPE_INLINE_ void allotrope_window_close(uint64_t window, uint32_t flags)
{
    (void)window, (void)flags;
    ALLOTROPE_CALL_(ALLOTROPE_WINDOW_CLOSE_, void (*)(uint64_t, uint32_t), (window, flags));
}

/* Waits until no other thread of this process has allocated or freed anything
 * for `quiet_milliseconds`, or until the time is out. 1: it is quiet (without
 * the recorder: at once); 0: the time is out. */
ALLOTROPE_INLINE_ uint32_t allotrope_quiet(uint32_t quiet_milliseconds,
                                           uint32_t timeout_milliseconds)
{
    (void)quiet_milliseconds, (void)timeout_milliseconds;
    ALLOTROPE_RETURN_(ALLOTROPE_QUIET_, uint32_t (*)(uint32_t, uint32_t),
                      (quiet_milliseconds, timeout_milliseconds));
    return 1;
}

/* With 1: what this thread does from here on belongs to no window, though it is
 * recorded. With 0: it does again. Calls nest. */
ALLOTROPE_INLINE_ void allotrope_opt_out(uint32_t on)
{
    (void)on;
    ALLOTROPE_CALL_(ALLOTROPE_OPT_OUT_, void (*)(uint32_t), (on));
}

/* ---- Blocks of a pool --------------------------------------------------- */

/* A pool (an arena, a slab, an allocator under names of its own) hands out
 * blocks that the recorder can not see; these calls report them. They are
 * recorded beside the memory from which they are carved: a block of a pool
 * that the pool took from malloc is in both. Report one level of a pool only;
 * blocks within reported blocks would share addresses.
 *
 * Report a block after the pool handed it out, and before the pool takes it
 * back. `alignment` is what was asked for; 0 or 1 if nothing was. */
ALLOTROPE_INLINE_ void allotrope_pool_allocation(const void *block, size_t size, size_t alignment)
{
    (void)block, (void)size, (void)alignment;
    ALLOTROPE_CALL_(ALLOTROPE_POOL_ALLOCATION_, void (*)(const void *, size_t, size_t),
                    (block, size, alignment));
}

/* The pool is about to take the block back. Of a null pointer nothing happens. */
ALLOTROPE_INLINE_ void allotrope_pool_deallocation(const void *block)
{
    (void)block;
    ALLOTROPE_CALL_(ALLOTROPE_POOL_DEALLOCATION_, void (*)(const void *), (block));
}

/* The pool is about to resize the block; gives what the end of it must be told,
 * on the same thread. Of a null pointer it is an allocation. */
ALLOTROPE_INLINE_ uint64_t allotrope_pool_reallocation_start(const void *block)
{
    (void)block;
    ALLOTROPE_RETURN_(ALLOTROPE_POOL_REALLOCATION_START_, uint64_t (*)(const void *), (block));
    return 0;
}

/* It has resized it, or (a null pointer) failed to: the block is as it was. */
ALLOTROPE_INLINE_ void allotrope_pool_reallocation_end(uint64_t token, const void *block_or_null,
                                                       size_t size)
{
    (void)token, (void)block_or_null, (void)size;
    ALLOTROPE_CALL_(ALLOTROPE_POOL_REALLOCATION_END_, void (*)(uint64_t, const void *, size_t),
                    (token, block_or_null, size));
}

/* ---- Measuring ---------------------------------------------------------- */

/* A decimal number from the environment, at most `most`; anything else there
 * counts as not set. */
ALLOTROPE_COLD_ uint32_t allotrope_setting_(const char *name, uint32_t otherwise)
{
    const char *text = getenv(name);
    uint64_t number = 0;
    if (!text || !*text) {
        return otherwise;
    }
    for (; *text; text++) {
        if (*text < '0' || *text > '9') {
            return otherwise;
        }
        number = number * 10 + ALLOTROPE_CAST_(uint64_t, *text - '0');
        if (number > UINT32_MAX) {
            return otherwise;
        }
    }
    return ALLOTROPE_CAST_(uint32_t, number);
}

/* How a measurement is made, after the environment had its say. */
typedef struct allotrope_protocol_ {
    uint32_t warmup;
    uint32_t runs;
    uint32_t open_flags;
    uint32_t close_flags;
} allotrope_protocol_;

ALLOTROPE_COLD_ allotrope_protocol_ allotrope_protocol_of_(uint32_t warmup, uint32_t runs)
{
    allotrope_protocol_ protocol;
    protocol.warmup = allotrope_setting_("ALLOTROPE_WARMUP", warmup);
    protocol.runs = allotrope_setting_("ALLOTROPE_RUNS", runs);
    if (protocol.runs == 0) {
        protocol.runs = 1;
    }
    protocol.close_flags = allotrope_setting_("ALLOTROPE_WINDOW_FLAGS", 0);
    protocol.open_flags = protocol.close_flags | ALLOTROPE_WAIT_FOR_QUIET;
    return protocol;
}

/* Calls `function(context)` `warmup` times outside of any window, then `runs`
 * times (at least once), each in a window of this name that opens when the
 * other threads are quiet. The function does its `iterations` itself. The
 * environment, in which `allotrope test` puts its configuration, wins over the
 * arguments: ALLOTROPE_WARMUP, ALLOTROPE_RUNS; ALLOTROPE_WINDOW_FLAGS adds
 * flags. Without the recorder the calls are the same. */
ALLOTROPE_INLINE_ void allotrope_measure(const char *name, uint32_t warmup, uint32_t runs,
                                         uint64_t iterations, void (*function)(void *),
                                         void *context)
{
    allotrope_protocol_ protocol = allotrope_protocol_of_(warmup, runs);
    uint32_t run;
    for (run = 0; run < protocol.warmup; run++) {
        function(context);
    }
    for (run = 0; run < protocol.runs; run++) {
        uint64_t window = allotrope_open(name, iterations, protocol.open_flags);
        function(context);
        allotrope_window_close(window, protocol.close_flags);
    }
}

/* ---- C++ ---------------------------------------------------------------- */

#ifdef __cplusplus
extern "C++" {
namespace allotrope {

/* A window that closes at the end of its scope. */
class window {
public:
    explicit window(const char *name, uint64_t iterations = 0, uint32_t flags = 0,
                    uint32_t close_flags = 0)
        : number_(allotrope_open(name, iterations, flags)), close_flags_(close_flags)
    {
    }
    window(window &&other) noexcept : number_(other.number_), close_flags_(other.close_flags_)
    {
        other.number_ = 0;
    }
    window(const window &) = delete;
    window &operator=(const window &) = delete;
    window &operator=(window &&) = delete;
    ~window() { close(); }

    /* Closes it now. */
    void close() noexcept
    {
        if (number_ != 0) {
            allotrope_window_close(number_, close_flags_);
            number_ = 0;
        }
    }

private:
    uint64_t number_;
    uint32_t close_flags_;
};

/* While it lives, what its thread does belongs to no window. */
class opted_out {
public:
    opted_out() { allotrope_opt_out(1); }
    opted_out(const opted_out &) = delete;
    opted_out &operator=(const opted_out &) = delete;
    ~opted_out() { allotrope_opt_out(0); }
};

/* Calls the function once, in a window that opens when the other threads are
 * quiet, and gives its result. */
template <typename Function>
auto measure(const char *name, uint64_t iterations, Function &&function) -> decltype(function())
{
    const allotrope_protocol_ protocol = allotrope_protocol_of_(0, 1);
    window measured(name, iterations, protocol.open_flags, protocol.close_flags);
    return function();
}

/* As allotrope_measure, for anything that can be called without arguments. */
template <typename Function>
void measure(const char *name, uint32_t warmup, uint32_t runs, uint64_t iterations,
             Function &&function)
{
    const allotrope_protocol_ protocol = allotrope_protocol_of_(warmup, runs);
    for (uint32_t run = 0; run < protocol.warmup; run++) {
        static_cast<void>(function());
    }
    for (uint32_t run = 0; run < protocol.runs; run++) {
        window measured(name, iterations, protocol.open_flags, protocol.close_flags);
        static_cast<void>(function());
    }
}

} /* namespace allotrope */
} /* extern "C++" */
#endif

#undef ALLOTROPE_CALL_
#undef ALLOTROPE_RETURN_
#undef ALLOTROPE_FUNCTION_
#undef ALLOTROPE_CAST_
#undef ALLOTROPE_NULL_
#undef ALLOTROPE_INLINE_
#undef ALLOTROPE_COLD_
#undef ALLOTROPE_ENABLED_

#endif /* ALLOTROPE_H */
