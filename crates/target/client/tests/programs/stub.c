/* Stands in for the recorder: exports the same functions, and appends a line for
 * each call to the file whose path is in the environment variable STUB_LOG. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void log_call(const char *format, ...)
{
    FILE *log = fopen(getenv("STUB_LOG"), "a");
    va_list arguments;
    va_start(arguments, format);
    vfprintf(log, format, arguments);
    va_end(arguments);
    fputc('\n', log);
    fclose(log);
}

static uint64_t last_window;

uint32_t allotrope_abi(void) { return 1; }
uint32_t allotrope_recording(void) { return 2; }

uint64_t allotrope_window_open(const char *name, size_t length, uint64_t iterations, uint32_t flags)
{
    log_call("open %.*s %llu %u", (int)length, name, (unsigned long long)iterations, flags);
    return ++last_window;
}

void allotrope_window_close(uint64_t window, uint32_t flags)
{
    log_call("close %llu %u", (unsigned long long)window, flags);
}

uint32_t allotrope_quiet(uint32_t quiet, uint32_t timeout)
{
    log_call("quiet %u %u", quiet, timeout);
    return 0;
}

void allotrope_opt_out(uint32_t on) { log_call("opt_out %u", on); }

void allotrope_pool_allocation(const void *block, size_t size, size_t alignment)
{
    log_call("allocation %p %zu %zu", block, size, alignment);
}

void allotrope_pool_deallocation(const void *block) { log_call("deallocation %p", block); }

uint64_t allotrope_pool_reallocation_start(const void *block)
{
    log_call("start %p", block);
    return 77;
}

void allotrope_pool_reallocation_end(uint64_t token, const void *block, size_t size)
{
    log_call("end %llu %p %zu", (unsigned long long)token, block, size);
}
