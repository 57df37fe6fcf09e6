/* allotrope.h: the interface of Allotrope, the heap profiler, for recorded
 * programs. They open windows, named spans whose allocations are counted
 * exactly, and report blocks of their own allocators.
 *
 * One header for C (C99 and later) and C++ (C++11 and later); no library to
 * link. Under `allotrope record` or `allotrope test` these functions call the
 * recorder in their process.
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
 * Without the recorder, the functions do nothing and return the value that
 * their description gives; only the measuring functions call the measured
 * function. A call then costs a load and a comparison. There is no recorder if
 * the program was not started by Allotrope, if it is statically linked, on
 * systems other than Linux, and with ALLOTROPE_DISABLE defined.
 *
 * Units: sizes and alignments are in bytes, times in milliseconds.
 *
 * Errors: no function reports an error. What cannot be recorded is missing in
 * the recording or marked there, and the program runs on.
 *
 * Threads: any thread may call any function at any time. The recorder's
 * functions preserve errno, do not call the program's allocator and may be
 * called in signal handlers. But the first call in each source file that
 * includes this header looks up the recorder with dlsym, and the measuring
 * functions call getenv; do not do this in a signal handler.
 *
 * The header refers to dlsym weakly, so that programs need no -ldl and
 * statically linked programs, which have no dlsym, can be linked.
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
/* Count only the thread that opens the window. */
#define ALLOTROPE_THIS_THREAD 1u
/* Before opening (closing) the window, wait until no other thread of this
 * process has allocated or freed memory for 20 ms, but for at most 2 s. Then
 * open (close) it in any case; the recording contains whether the wait timed
 * out. */
#define ALLOTROPE_WAIT_FOR_QUIET 2u
/* Compare the open file descriptors at the opening and the closing. Both wait
 * until Allotrope has read the list of open descriptors. */
#define ALLOTROPE_COMPARE_DESCRIPTORS 4u

/* Results of allotrope_recording(). */
#define ALLOTROPE_NOT_RECORDING 0u
#define ALLOTROPE_RECORDS_STACKS 1u
#define ALLOTROPE_RECORDS_COUNTS 2u

#if !defined(ALLOTROPE_DISABLE) && defined(__linux__) && defined(__GNUC__)
#define ALLOTROPE_ENABLED_ 1
#endif

#if defined(__GNUC__)
/* Always inlined, so that a recorded stack begins in the program's function. */
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

/* A weakref and not a weak declaration, because the latter would make the
 * program's own references to dlsym in the same file weak, too. */
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

/* Looks up all functions at once, so that no later call in a window has to.
 * Several threads may do this at the same time, because all find the same
 * addresses. */
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

/* The address of a function of the recorder; null without the recorder. The
 * addresses are cached separately for each source file. */
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

/* Calls a function of the recorder, if there is one. */
#define ALLOTROPE_CALL_(index, type, arguments)                \
    do {                                                       \
        void *function_ = allotrope_function_(index);          \
        if (function_) {                                       \
            ALLOTROPE_FUNCTION_(type, function_) arguments;    \
        }                                                      \
    } while (0)
/* Returns the result of a function of the recorder, if there is one. */
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

/* Returns whether and how the events of the calling thread are recorded:
 * ALLOTROPE_NOT_RECORDING (without the recorder, and if the thread has opted
 * out of windows), ALLOTROPE_RECORDS_STACKS (each event, with its stack) or
 * ALLOTROPE_RECORDS_COUNTS (only numbers of events and bytes). */
ALLOTROPE_INLINE_ uint32_t allotrope_recording(void)
{
    ALLOTROPE_RETURN_(ALLOTROPE_RECORDING_, uint32_t (*)(void), ());
    return ALLOTROPE_NOT_RECORDING;
}

/* Opens a window, a named span of the program. Returns its number for
 * allotrope_window_close, or 0 if it is not recorded, as without the recorder.
 *
 * The name consists of `name_length` bytes of UTF-8 without a terminating null;
 * the recorder copies at most 255 bytes, whole characters. `iterations` is how
 * often the program repeats the measured work in the window; 0 if that has no
 * meaning. `flags` are those above, combined with `|`.
 *
 * Windows may nest and overlap, and may be opened and closed by different
 * threads. (But if calls are only counted, a window with ALLOTROPE_THIS_THREAD
 * has no figures unless the opening thread closes it.) A forked child does not
 * inherit open windows. */
ALLOTROPE_INLINE_ uint64_t allotrope_window_open(const char *name, size_t name_length,
                                                 uint64_t iterations, uint32_t flags)
{
    (void)name, (void)name_length, (void)iterations, (void)flags;
    ALLOTROPE_RETURN_(ALLOTROPE_WINDOW_OPEN_,
                      uint64_t (*)(const char *, size_t, uint64_t, uint32_t),
                      (name, name_length, iterations, flags));
    return 0;
}

/* Like allotrope_window_open, with a null-terminated name, which must not be a
 * null pointer. */
ALLOTROPE_INLINE_ uint64_t allotrope_open(const char *name, uint64_t iterations, uint32_t flags)
{
    return allotrope_window_open(name, strlen(name), iterations, flags);
}

/* Closes the window with this number. `flags` is 0 or
 * ALLOTROPE_WAIT_FOR_QUIET. Ignores 0 and the numbers of closed windows. */
ALLOTROPE_INLINE_ void allotrope_window_close(uint64_t window, uint32_t flags)
{
    (void)window, (void)flags;
    ALLOTROPE_CALL_(ALLOTROPE_WINDOW_CLOSE_, void (*)(uint64_t, uint32_t), (window, flags));
}

/* Waits until no other thread of this process has allocated or freed memory
 * for `quiet_milliseconds`, and returns 1; returns 0 if that does not happen
 * within `timeout_milliseconds`. A thread that is busy but does not allocate
 * counts as quiet. Without the recorder it returns 1 at once. */
ALLOTROPE_INLINE_ uint32_t allotrope_quiet(uint32_t quiet_milliseconds,
                                           uint32_t timeout_milliseconds)
{
    (void)quiet_milliseconds, (void)timeout_milliseconds;
    ALLOTROPE_RETURN_(ALLOTROPE_QUIET_, uint32_t (*)(uint32_t, uint32_t),
                      (quiet_milliseconds, timeout_milliseconds));
    return 1;
}

/* After a call with 1, the events of the calling thread are recorded, but belong
 * to no window. A call with 0 ends that. Calls nest: as many calls with 0 are
 * needed as there were with 1; further ones are ignored. */
ALLOTROPE_INLINE_ void allotrope_opt_out(uint32_t on)
{
    (void)on;
    ALLOTROPE_CALL_(ALLOTROPE_OPT_OUT_, void (*)(uint32_t), (on));
}

/* ---- Blocks of a pool --------------------------------------------------- */

/* These functions report the blocks of a pool (an arena, a slab, an allocator
 * with function names of its own), whose calls the recorder cannot intercept.
 * The recording contains them in addition to the memory from which the pool
 * takes them: malloc's block and the pool's blocks inside of it. Do not report
 * blocks inside of other reported blocks: their addresses would collide.
 *
 * The recorder never accesses the memory of a block. Any thread may free a
 * block that another thread allocated. Report an allocation after the pool has
 * returned the block and a deallocation before the pool frees it; otherwise
 * another thread may get the same address and report it first.
 *
 * Without the recorder these functions do nothing. */

/* Reports that the pool has returned a block of `size` bytes. `alignment` is
 * the requested one in bytes; 0 or 1 if none was requested. Ignores null
 * pointers. */
ALLOTROPE_INLINE_ void allotrope_pool_allocation(const void *block, size_t size, size_t alignment)
{
    (void)block, (void)size, (void)alignment;
    ALLOTROPE_CALL_(ALLOTROPE_POOL_ALLOCATION_, void (*)(const void *, size_t, size_t),
                    (block, size, alignment));
}

/* Reports that the pool is about to free the block. Ignores null pointers. */
ALLOTROPE_INLINE_ void allotrope_pool_deallocation(const void *block)
{
    (void)block;
    ALLOTROPE_CALL_(ALLOTROPE_POOL_DEALLOCATION_, void (*)(const void *), (block));
}

/* Reports that the pool is about to resize the block. Returns a token, with
 * which the same thread must call allotrope_pool_reallocation_end. With a null
 * pointer the pair of calls reports an allocation. Pairs may nest. Returns 0 if
 * the call is not recorded, as without the recorder. */
ALLOTROPE_INLINE_ uint64_t allotrope_pool_reallocation_start(const void *block)
{
    (void)block;
    ALLOTROPE_RETURN_(ALLOTROPE_POOL_REALLOCATION_START_, uint64_t (*)(const void *), (block));
    return 0;
}

/* Reports the resized block, which now has `size` bytes, or a null pointer if
 * resizing failed and the old block is unchanged. `token` is that of
 * allotrope_pool_reallocation_start, also if it is 0. */
ALLOTROPE_INLINE_ void allotrope_pool_reallocation_end(uint64_t token, const void *block_or_null,
                                                       size_t size)
{
    (void)token, (void)block_or_null, (void)size;
    ALLOTROPE_CALL_(ALLOTROPE_POOL_REALLOCATION_END_, void (*)(uint64_t, const void *, size_t),
                    (token, block_or_null, size));
}

/* ---- Measuring ---------------------------------------------------------- */

/* The decimal number in an environment variable, or `otherwise` if the variable
 * is not set or does not contain a number of at most 32 bits. */
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

/* The settings of a measurement: arguments and environment variables. */
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
 * times (at least once), each in a window with this name that opens when the
 * other threads are quiet (ALLOTROPE_WAIT_FOR_QUIET). `iterations` is how often
 * one call of the function repeats the measured work.
 *
 * The environment variables ALLOTROPE_WARMUP and ALLOTROPE_RUNS, which
 * `allotrope test` sets, take precedence over the arguments, and
 * ALLOTROPE_WINDOW_FLAGS adds flags to the opening and the closing. Values that
 * are not decimal numbers of at most 32 bits are ignored. Without the recorder
 * it makes the same calls. Must not run at the same time as setenv. */
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

/* A window that closes at the end of its scope. The arguments are those of
 * allotrope_open and allotrope_window_close. Another thread may destroy the
 * object or move from it, but two threads must not use it at the same time. */
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

    /* Closes the window before the end of the scope. Later calls, and those
     * after the object was moved from, do nothing. */
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

/* During its lifetime, the events of its thread belong to no window. Must be
 * destroyed on the thread that created it. */
class opted_out {
public:
    opted_out() { allotrope_opt_out(1); }
    opted_out(const opted_out &) = delete;
    opted_out &operator=(const opted_out &) = delete;
    ~opted_out() { allotrope_opt_out(0); }
};

/* Calls the function once, in a window that opens when the other threads are
 * quiet, and returns its result. `iterations` is how often the function repeats
 * the measured work. An exception closes the window and is passed on. */
template <typename Function>
auto measure(const char *name, uint64_t iterations, Function &&function) -> decltype(function())
{
    const allotrope_protocol_ protocol = allotrope_protocol_of_(0, 1);
    window measured(name, iterations, protocol.open_flags, protocol.close_flags);
    return function();
}

/* Like allotrope_measure, for anything that can be called without arguments.
 * Discards the results. An exception closes the window and is passed on. */
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
