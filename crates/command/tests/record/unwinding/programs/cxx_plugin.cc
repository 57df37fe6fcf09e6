// A plugin in C++ for a program in C, see opening.c.
#include <cstddef>

#define ALONE __attribute__((noipa))

namespace plugin {

// One block of `count` longs.
ALONE static long numbers(std::size_t count) {
    long *all = new long[count];
    all[0] = 1;
    long one = *const_cast<volatile long *>(all);
    delete[] all;
    return one;
}

struct Thing {
    long words[3];
    ALONE static Thing *make() {
        Thing *thing = new Thing();
        __asm__ volatile("");
        return thing;
    }
};

static Thing *volatile kept;

// The C++ runtime sets itself up.
ALONE static void first_exception() {
    try {
        throw 7;
    } catch (int) {
        __asm__ volatile("");
    }
}

// `count` exceptions, each thrown while an object waits to be deleted.
ALONE static void failing(std::size_t count) {
    for (std::size_t i = 0; i < count; i++) {
        kept = Thing::make();
        try {
            throw 7;
        } catch (int) {
            delete kept;
        }
    }
}

} // namespace plugin

extern "C" ALONE void enter(std::size_t count) {
    plugin::numbers(count);
    plugin::first_exception();
    plugin::failing(count);
    __asm__ volatile("");
}
