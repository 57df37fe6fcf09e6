/* The functions of C23 as allocators have them: JUMPING: as jumps to `free` (glibc
 * 2.43); SEPARATE: without `free`; otherwise as calls of it. The same for the
 * relatives of aligned_alloc. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

void *memalign(size_t alignment, size_t size);

#if defined(JUMPING)
__asm__(".globl free_sized, free_aligned_sized, cfree, aligned_alloc\n"
        "free_sized: jmp free@PLT\n"
        "free_aligned_sized: jmp free@PLT\n"
        "cfree: jmp free@PLT\n"
        "aligned_alloc: jmp memalign@PLT\n"
        ".type free_sized, @function\n"
        ".type free_aligned_sized, @function\n"
        ".type cfree, @function\n"
        ".type aligned_alloc, @function\n");
#else
#ifdef SEPARATE
static void give_back(void *block) {
    ((void (*)(void *))dlsym(RTLD_NEXT, "__libc_free"))(block);
}
static void *aligned(size_t alignment, size_t size) {
    return ((void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "__libc_memalign"))(alignment, size);
}
#else
#define give_back free
#define aligned memalign
#endif

/* Keeps the call before it from becoming a jump. */
#define AFTERWARDS __asm__ volatile("" ::: "memory")

void free_sized(void *block, size_t size) {
    (void)size;
    give_back(block);
    AFTERWARDS;
}

void free_aligned_sized(void *block, size_t alignment, size_t size) {
    (void)alignment, (void)size;
    give_back(block);
    AFTERWARDS;
}

void cfree(void *block) {
    give_back(block);
    AFTERWARDS;
}

void *aligned_alloc(size_t alignment, size_t size) {
    void *block = aligned(alignment, size);
    AFTERWARDS;
    return block;
}

int posix_memalign(void **result, size_t alignment, size_t size) {
    void *block = aligned_alloc(alignment, size);
    if (block == 0)
        return ENOMEM;
    *result = block;
    return 0;
}
#endif
