/* A library to be preloaded: prints the sizes of callocs of elements of 16 bytes
 * made by the loader, which are the dynamic thread vectors of threads. It has no
 * thread-local storage itself. */
#define _GNU_SOURCE
#include <link.h>
#include <stdint.h>
#include <stdio.h>

extern void *__libc_calloc(size_t, size_t);

static int is_loader(struct dl_phdr_info *info, size_t size, void *address) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && (uintptr_t)address - start < part->p_memsz)
            return info->dlpi_addr == _r_debug.r_ldbase ? 2 : 1;
    }
    return 0;
}

void *calloc(size_t count, size_t size) {
    if (size == 16 && dl_iterate_phdr(is_loader, __builtin_return_address(0)) == 2) {
        char line[32];
        int length = snprintf(line, sizeof line, "%zu\n", count * size);
        fwrite(line, 1, length, stderr);
    }
    return __libc_calloc(count, size);
}
