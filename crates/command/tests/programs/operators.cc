// Every form of operator new and delete.
//
// `operators CASE` runs one case. The comment above a case derives its expected
// counts, without those of `nothing`: libstdc++ sets memory aside for exceptions
// before main. A broken promise is status 99.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#define CASE __attribute__((noipa)) void
#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition))                                                      \
            std::_Exit(99);                                                    \
    } while (0)

struct Plain {
    char bytes[40];
};

struct alignas(128) Wide {
    char bytes[128];
};

struct Throws {
    char bytes[56];
    __attribute__((noipa)) Throws() { throw 7; }
};

static void *volatile sink;
static volatile std::size_t huge = PTRDIFF_MAX - 100;
static volatile std::size_t zero = 0;

// Keeps new and delete from being removed as a pair.
template <typename T> static T *keep(T *object) {
    sink = object;
    return static_cast<T *>(sink);
}

// truth nothing:
CASE nothing() {}

// truth scalar: allocations=1 bytes=40 deallocations=1 temporary=1 peak=1 peak_bytes=40
CASE case_scalar() { delete keep(new Plain); }

// 33 chars, and 5 Plain of 40 bytes (nothing to destroy, so no count is kept);
// the second is freed first.
// truth array: allocations=2 bytes=233 deallocations=2 temporary=1 peak=2 peak_bytes=233
CASE case_array() {
    char *chars = keep(new char[33]);
    Plain *plain = keep(new Plain[5]);
    delete[] plain;
    delete[] chars;
}

// 100 objects of 40 bytes, the odd ones (50) deleted after all were made: of
// these only the last, number 99, right after its own allocation.
// truth many_objects: allocations=100 bytes=4000 deallocations=50 temporary=1 leaked=50 leaked_bytes=2000 peak=100 peak_bytes=4000
CASE case_many_objects() {
    Plain *objects[100];
    for (auto &object : objects)
        object = keep(new Plain);
    for (int i = 1; i < 100; i += 2)
        delete objects[i];
}

// truth nothrow: allocations=2 bytes=47 deallocations=2 temporary=2 peak=1 peak_bytes=40
CASE case_nothrow() {
    delete keep(new (std::nothrow) Plain);
    delete[] keep(new (std::nothrow) char[7]);
}

// truth aligned: allocations=1 bytes=128 deallocations=1 temporary=1 peak=1 peak_bytes=128
CASE case_aligned() {
    Wide *wide = keep(new Wide);
    CHECK(reinterpret_cast<std::uintptr_t>(wide) % 128 == 0);
    delete wide;
}

// 3*128 bytes.
// truth aligned_array: allocations=1 bytes=384 deallocations=1 temporary=1 peak=1 peak_bytes=384
CASE case_aligned_array() {
    Wide *wide = keep(new Wide[3]);
    CHECK(reinterpret_cast<std::uintptr_t>(wide) % 128 == 0);
    delete[] wide;
}

// truth aligned_nothrow: allocations=2 bytes=384 deallocations=2 temporary=2 peak=1 peak_bytes=256
CASE case_aligned_nothrow() {
    delete keep(new (std::nothrow) Wide);
    delete[] keep(new (std::nothrow) Wide[2]);
}

// The operators called by name, the sized deletes among them: 32, 64 and 0
// bytes, where libstdc++ asks malloc for 1 in place of 0.
// truth direct_sized: allocations=3 bytes=97 deallocations=3 temporary=3 peak=1 peak_bytes=64
CASE case_direct_sized() {
    ::operator delete(keep(::operator new(32)), std::size_t(32));
    ::operator delete[](keep(::operator new[](64)), std::size_t(64));
    ::operator delete(keep(::operator new(zero)));
}

// truth direct_aligned: allocations=4 bytes=1024 deallocations=4 temporary=4 peak=1 peak_bytes=256
CASE case_direct_aligned() {
    constexpr std::align_val_t to{64};
    ::operator delete(keep(::operator new(256, to)), to);
    ::operator delete[](keep(::operator new[](256, to)), to);
    ::operator delete(keep(::operator new(256, to)), std::size_t(256), to);
    ::operator delete[](keep(::operator new[](256, to)), std::size_t(256), to);
}

// truth delete_null:
CASE case_delete_null() {
    delete static_cast<Plain *>(reinterpret_cast<void *>(zero));
    delete[] static_cast<char *>(reinterpret_cast<void *>(zero));
}

// The constructor throws after its 56 bytes were allocated; the exception (its
// header and an int) is allocated in between and freed after, so the 56 bytes
// are not temporary and the exception, the last allocation, is. The header's
// size is libstdc++'s: 128 bytes, and 4 for the int.
// truth constructor_throws: allocations=2 bytes=188 deallocations=2 temporary=1 peak=2 peak_bytes=188
CASE case_constructor_throws() {
    int caught = 0;
    try {
        keep(new Throws);
    } catch (int number) {
        caught = number;
    }
    CHECK(caught == 7);
}

// A vector that grows from 4 to 8 elements of 4 bytes (new block first, then
// the old one goes, so it is not temporary), and a string too long for its own
// buffer: 100 characters and the ending zero. Peak: 32 + 101.
// truth containers: allocations=3 bytes=149 deallocations=3 temporary=1 peak=2 peak_bytes=133
CASE case_containers() {
    std::vector<int> numbers;
    numbers.reserve(4);
    sink = numbers.data();
    numbers.resize(4);
    numbers.push_back(5);
    sink = numbers.data();
    std::string text(100, 'x');
    sink = text.data();
}

// Requests that cannot be met: null or bad_alloc, from each form.
CASE case_failures() {
    const std::size_t bytes = huge;
    CHECK(keep(static_cast<char *>(::operator new(bytes, std::nothrow))) == nullptr);
    CHECK(keep(static_cast<char *>(::operator new[](bytes, std::nothrow))) == nullptr);
    int caught = 0;
    try {
        keep(::operator new(bytes));
    } catch (const std::bad_alloc &) {
        caught++;
    }
    try {
        keep(new char[bytes]);
    } catch (const std::bad_alloc &) {
        caught++;
    }
    try {
        keep(::operator new(bytes, std::align_val_t{64}));
    } catch (const std::bad_alloc &) {
        caught++;
    }
    CHECK(caught == 3);
}

static const struct {
    const char *name;
    void (*run)();
} cases[] = {
    {"nothing", nothing},
    {"scalar", case_scalar},
    {"array", case_array},
    {"many_objects", case_many_objects},
    {"nothrow", case_nothrow},
    {"aligned", case_aligned},
    {"aligned_array", case_aligned_array},
    {"aligned_nothrow", case_aligned_nothrow},
    {"direct_sized", case_direct_sized},
    {"direct_aligned", case_direct_aligned},
    {"delete_null", case_delete_null},
    {"constructor_throws", case_constructor_throws},
    {"containers", case_containers},
    {"failures", case_failures},
};

int main(int argc, char **argv) {
    for (const auto &known : cases) {
        if (argc == 2 && std::strcmp(argv[1], known.name) == 0) {
            known.run();
            return 0;
        }
    }
    return 98;
}
