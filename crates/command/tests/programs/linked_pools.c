// An allocator that is linked into the program that it serves, as its author benchmarks it
// (`linked_bench.c`): `malloc` and `free` do nothing but jump to functions with names of their
// own, because compilers turn a call in the last place into a jump. Each `free` of a block that
// the small pool does not own asks the environment first.
//
// Small blocks are in slabs of 64 KiB, found by a table; the others have a header, and are looked
// for in a list of descriptors before.
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define OUT_OF_LINE __attribute__((noinline, noclone))
#define SLAB ((size_t)1 << 16)
#define SLABS 1024 // of which only those in use are resident
#define CLASSES 8 // 16 to 128 bytes
#define DESCRIPTORS 32
#define MAGIC 0x504f4f4cu

struct block {
    struct block *next;
};
struct slab {
    uint32_t magic;
    uint32_t class;
};
struct header {
    uint64_t magic;
    uint64_t class;
};

// Each thread has free lists of its own: the preloading process may have several.
#define OWN static _Thread_local __attribute__((tls_model("initial-exec")))
static char arena[SLAB * SLABS] __attribute__((aligned(SLAB)));
static _Atomic size_t used_slabs;
OWN struct block *small[CLASSES];
OWN struct block *large[48];
static uintptr_t descriptors[DESCRIPTORS];

static void *map(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static int pool_refill(unsigned class) {
    size_t number = used_slabs++;
    if (number >= SLABS) {
        return 0;
    }
    struct slab *slab = (struct slab *)(arena + SLAB * number);
    slab->magic = MAGIC;
    slab->class = class;
    size_t size = (class + 1) * 16;
    for (size_t at = 64; at + size <= SLAB; at += size) {
        struct block *block = (struct block *)((char *)slab + at);
        block->next = small[class];
        small[class] = block;
    }
    return 1;
}

OUT_OF_LINE static void *pool_small_alloc(size_t size) {
    unsigned class = size == 0 ? 0 : (unsigned)((size - 1) / 16);
    if (small[class] == NULL && !pool_refill(class)) {
        errno = ENOMEM;
        return NULL;
    }
    struct block *block = small[class];
    small[class] = block->next;
    return block;
}

OUT_OF_LINE static void *pool_large_alloc(size_t size) {
    size_t whole = size + sizeof(struct header);
    if (whole < size || whole > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    unsigned class = 64 - (unsigned)__builtin_clzl(whole - 1);
    struct header *header = (struct header *)large[class];
    if (header != NULL) {
        large[class] = large[class]->next;
    } else if ((header = map((size_t)1 << class)) == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    header->magic = MAGIC;
    header->class = class;
    return header + 1;
}

OUT_OF_LINE void *pool_alloc_at(size_t size) {
    return size <= CLASSES * 16 ? pool_small_alloc(size) : pool_large_alloc(size);
}

OUT_OF_LINE static struct slab *pool_owner_slab(void *block) {
    uintptr_t offset = (uintptr_t)block - (uintptr_t)arena;
    if (offset >= sizeof(arena)) {
        return NULL;
    }
    return (struct slab *)((uintptr_t)block & ~(SLAB - 1));
}

OUT_OF_LINE static int mid_desc_lookup(void *block) {
    uintptr_t page = (uintptr_t)block >> 16;
    for (int i = 0; i < DESCRIPTORS; i++) {
        if (descriptors[i] == page) {
            return 1;
        }
    }
    return 0;
}

OUT_OF_LINE void pool_free_at(void *block) {
    struct slab *slab = pool_owner_slab(block);
    if (slab != NULL) {
        struct block *freed = block;
        freed->next = small[slab->class];
        small[slab->class] = freed;
        return;
    }
    if (mid_desc_lookup(block)) {
        return;
    }
#ifdef ASK_ONCE
    static int mode = -1;
    if (mode < 0) {
        const char *invalid = getenv("POOL_INVALID_FREE");
        mode = invalid != NULL && strcmp(invalid, "abort") == 0;
    }
    int aborts = mode;
#else
    const char *invalid = getenv("POOL_INVALID_FREE"); // MARK getenv
    int aborts = invalid != NULL && strcmp(invalid, "abort") == 0;
#endif
    struct header *header = (struct header *)block - 1;
    if (header->magic != MAGIC) {
        if (aborts) {
            abort();
        }
        return;
    }
    header->magic = 0;
    struct block *freed = (struct block *)header;
    unsigned class = (unsigned)header->class;
    freed->next = large[class];
    large[class] = freed;
}

void *malloc(size_t size) {
    return pool_alloc_at(size); // a jump
}

void free(void *block) {
    if (block != NULL) {
        pool_free_at(block); // a jump
    }
}

void *calloc(size_t count, size_t size) {
    size_t whole;
    if (__builtin_mul_overflow(count, size, &whole)) {
        errno = ENOMEM;
        return NULL;
    }
    void *block = pool_alloc_at(whole);
    return block == NULL ? NULL : memset(block, 0, whole);
}

static size_t size_of(void *block) {
    struct slab *slab = pool_owner_slab(block);
    if (slab != NULL) {
        return (slab->class + 1) * 16;
    }
    struct header *header = (struct header *)block - 1;
    return ((size_t)1 << header->class) - sizeof(struct header);
}

void *realloc(void *block, size_t size) {
    if (block == NULL) {
        return pool_alloc_at(size);
    }
    size_t old = size_of(block);
    if (size <= old) {
        return block;
    }
    void *new_block = pool_alloc_at(size);
    if (new_block != NULL) {
        memcpy(new_block, block, old);
        pool_free_at(block);
    }
    return new_block;
}

// What the allocator's author calls by hand: neither an entry point nor reached by a jump.
OUT_OF_LINE int pool_statistics(void) {
    int blocks = 0;
    for (int class = 0; class < CLASSES; class++) {
        for (struct block *block = small[class]; block != NULL; block = block->next) {
            blocks++;
        }
    }
    return blocks;
}
