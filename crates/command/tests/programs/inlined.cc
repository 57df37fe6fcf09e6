// Functions inlined into others, in namespaces, classes, templates, lambdas.
// Compiled with -O2. Every allocation is of a size of its own.
#include <cstdlib>

#define ALONE __attribute__((noipa))
#define INTO __attribute__((always_inline)) inline

static void *volatile sink;

namespace deep {

INTO void innermost(std::size_t bytes) {
    sink = std::malloc(bytes); // MARK innermost
}

class Thing {
public:
    INTO void inlined_method(int times) {
        for (int i = 0; i < times; i++)
            innermost(41); // MARK inlined-method
    }
    ALONE void method(int times) {
        inlined_method(times); // MARK method
        __asm__ volatile("");
    }
};

template <typename T> ALONE T *build(int number) {
    sink = std::malloc(43 * sizeof(T)); // MARK build
    return number > 0 ? static_cast<T *>(sink) : nullptr;
}

} // namespace deep

namespace {
ALONE void hidden(std::size_t bytes) {
    sink = std::malloc(bytes);
}
} // namespace

ALONE static void calls(int number) {
    deep::Thing().method(5); // MARK calls
    deep::build<long>(number);
    hidden(47);
    auto lambda = [](std::size_t bytes) __attribute__((noipa)) { sink = std::malloc(bytes); };
    lambda(53);
    __asm__ volatile("");
}

int main(int argc, char **) {
    calls(argc);
    return 0;
}
