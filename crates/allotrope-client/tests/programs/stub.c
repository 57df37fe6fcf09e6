/* Stands in for the recorder: exports its functions and appends each call as a
 * line to the file that STUB_LOG names. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static void note(const char *format, ...)
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
    note("open %.*s %llu %u", (int)length, name, (unsigned long long)iterations, flags);
    return ++last_window;
}

void allotrope_window_close(uint64_t window, uint32_t flags)
{
    note("close %llu %u", (unsigned long long)window, flags);
}

uint32_t allotrope_quiet(uint32_t quiet, uint32_t timeout)
{
    note("quiet %u %u", quiet, timeout);
    return 0;
}

void allotrope_opt_out(uint32_t on) { note("opt_out %u", on); }

void allotrope_pool_allocation(const void *block, size_t size, size_t alignment)
{
    note("allocation %p %zu %zu", block, size, alignment);
}

void allotrope_pool_deallocation(const void *block) { note("deallocation %p", block); }

uint64_t allotrope_pool_reallocation_start(const void *block)
{
    note("start %p", block);
    return 77;
}

void allotrope_pool_reallocation_end(uint64_t token, const void *block, size_t size)
{
    note("end %llu %p %zu", (unsigned long long)token, block, size);
}
