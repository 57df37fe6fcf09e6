// A small allocator with a mistake that is easy to make: `free` asks the environment what to
// do with a pointer that is not its own, on every call, although almost every pointer is.
//
// Blocks have sizes that are powers of two, and come from free lists of the calling thread.
// A block that another thread frees stays with that thread.
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MAGIC 0x544e5941u
#define SMALLEST 5  // 32 bytes, 16 of them the header
#define LARGEST 20  // larger blocks are mappings of their own
#define MAPPED 32   // the class of those
#define INNER 33    // the header inside a block that was larger than needed, for an alignment
#define CHUNK ((size_t)1 << 22)

struct header {
    uint32_t magic;
    uint32_t class;
    union {
        struct header *next;   // of a free block
        size_t size;           // of a mapping, with the header
        struct header *outer;  // of an inner header
    };
};

static _Thread_local struct header *lists[LARGEST + 1];
static _Thread_local char *chunk, *chunk_end;

static bool skips_invalid(void) {
    const char *mode = getenv("TINY_INVALID_FREE");
    return mode == NULL || strcmp(mode, "abort") != 0;
}

static uint32_t class_of(size_t size) {
    uint32_t class = 64 - (uint32_t)__builtin_clzl(size - 1);
    return class < SMALLEST ? SMALLEST : class;
}

static struct header *map(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static struct header *fresh(uint32_t class) {
    size_t size = (size_t)1 << class;
    if ((size_t)(chunk_end - chunk) < size) {
        char *memory = (char *)map(CHUNK);
        if (memory == NULL) {
            return NULL;
        }
        chunk = memory;
        chunk_end = memory + CHUNK;
    }
    struct header *block = (struct header *)chunk;
    chunk += size;
    return block;
}

static struct header *large(size_t size) {
    struct header *block = map(size);
    if (block != NULL) {
        block->magic = MAGIC;
        block->class = MAPPED;
        block->size = size;
    }
    return block;
}

void *malloc(size_t size) {
    size_t whole = size + sizeof(struct header);
    if (whole < size || whole > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    struct header *block;
    uint32_t class = class_of(whole);
    if (class > LARGEST) {
        block = large(whole);
    } else {
        block = lists[class];
        if (block != NULL) {
            lists[class] = block->next;
        } else {
            block = fresh(class);
        }
        if (block != NULL) {
            block->magic = MAGIC;
            block->class = class;
        }
    }
    if (block == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    return block + 1;
}

void free(void *pointer) {
    if (pointer == NULL) {
        return;
    }
    struct header *block = (struct header *)pointer - 1;
    bool skips = skips_invalid();
    if (block->magic != MAGIC) {
        if (skips) {
            return;
        }
        abort();
    }
    if (block->class == INNER) {
        block = block->outer;
    }
    if (block->class == MAPPED) {
        munmap(block, block->size);
        return;
    }
    block->next = lists[block->class];
    lists[block->class] = block;
}

// Bytes that a block can hold.
static size_t room(void *pointer) {
    struct header *block = (struct header *)pointer - 1;
    struct header *outer = block->class == INNER ? block->outer : block;
    size_t whole = outer->class == MAPPED ? outer->size : (size_t)1 << outer->class;
    return whole - (size_t)((char *)pointer - (char *)outer);
}

void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    void *pointer = malloc(bytes);
    return pointer == NULL ? NULL : memset(pointer, 0, bytes);
}

void *realloc(void *pointer, size_t size) {
    if (pointer == NULL) {
        return malloc(size);
    }
    if (room(pointer) >= size) {
        return pointer;
    }
    void *other = malloc(size);
    if (other != NULL) {
        memcpy(other, pointer, room(pointer));
        free(pointer);
    }
    return other;
}

void *memalign(size_t alignment, size_t size) {
    char *outer = malloc(size + alignment + sizeof(struct header));
    if (outer == NULL || (uintptr_t)outer % alignment == 0) {
        return outer;
    }
    char *inner = outer + sizeof(struct header);
    inner += (alignment - (uintptr_t)inner % alignment) % alignment;
    struct header *header = (struct header *)inner - 1;
    header->magic = MAGIC;
    header->class = INNER;
    header->outer = (struct header *)outer - 1;
    return inner;
}

void *aligned_alloc(size_t alignment, size_t size) {
    return memalign(alignment, size);
}

int posix_memalign(void **result, size_t alignment, size_t size) {
    void *pointer = memalign(alignment, size);
    if (pointer == NULL) {
        return ENOMEM;
    }
    *result = pointer;
    return 0;
}
