/* C++ operators under allocators that define operators of their own. Each case is one
 * function, whose loop gives the counts:
 *
 * truth single: new_int makes 100 allocations of 4 bytes and frees them.
 * truth aligned: new_aligned makes 50 of 64 bytes, aligned to 64.
 * truth array: new_array makes 20 of 30 bytes, nothrow.
 * truth failed: fail makes none: the request is refused by an exception.
 * truth plain: plain makes 10 of 7 bytes by malloc.
 */
#include <cstdint>
#include <cstdlib>
#include <new>

static void *volatile sink;

struct alignas(64) Aligned {
    char bytes[64];
};

#define ALONE __attribute__((noinline, noclone))

ALONE void new_int() {
    for (int i = 0; i < 100; i++) {
        int *block = new int;
        sink = block;
        delete block;
    }
}

ALONE void new_aligned() {
    for (int i = 0; i < 50; i++) {
        Aligned *block = new Aligned;
        sink = block;
        if (reinterpret_cast<std::uintptr_t>(block) % 64 != 0)
            std::_Exit(3);
        delete block;
    }
}

ALONE void new_array() {
    for (int i = 0; i < 20; i++) {
        char *block = new (std::nothrow) char[30];
        sink = block;
        delete[] block;
    }
}

ALONE void fail() {
    try {
        sink = operator new(std::size_t(1) << 60);
        std::_Exit(4);
    } catch (const std::bad_alloc &) {
    }
}

ALONE void plain() {
    for (int i = 0; i < 10; i++) {
        void *block = std::malloc(7);
        sink = block;
        std::free(block);
    }
}

int main() {
    new_int();
    new_aligned();
    new_array();
    fail();
    plain();
}
