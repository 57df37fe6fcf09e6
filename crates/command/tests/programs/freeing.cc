// C++ blocks whose every deallocation is known. `construct` makes 12 objects with `new`,
// and `destroy` deletes them. `fill` makes 9 arrays with `new[]`; `destroy_arrays` deletes
// them. `share` makes 8 objects that a `std::shared_ptr` owns, each in one block, which the
// last owner frees in `forget`.
#include <memory>
#include <utility>

#define ALONE __attribute__((noipa))

static void *volatile sink;

struct Thing {
    long numbers[5];
    virtual ~Thing() { sink = this; }
};

ALONE static Thing *construct() {
    Thing *thing = new Thing;
    sink = thing;
    return thing;
}

ALONE static void destroy(Thing *thing) {
    delete thing;
    sink = nullptr;
}

ALONE static long *fill() {
    long *numbers = new long[20];
    sink = numbers;
    return numbers;
}

ALONE static void destroy_arrays(long *numbers) {
    delete[] numbers;
    sink = nullptr;
}

ALONE static std::shared_ptr<Thing> share() { return std::make_shared<Thing>(); }

ALONE static void forget(std::shared_ptr<Thing> &owner) {
    owner.reset();
    sink = nullptr;
}

int main() {
    for (int i = 0; i < 12; i++)
        destroy(construct());
    for (int i = 0; i < 9; i++)
        destroy_arrays(fill());
    for (int i = 0; i < 8; i++) {
        std::shared_ptr<Thing> owner = share();
        forget(owner);
    }
}
