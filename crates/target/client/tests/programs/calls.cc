// Uses the header's C++ functions and classes. The calls that the recorder's
// stand-in must log are in tests/header.rs, as CXX_CALLS.
#include "allotrope.h"

#include <cstdio>
#include <dlfcn.h>
#include <memory>
#include <stdexcept>
#include <utility>

int main()
{
    int calls = 0;
    // A result that can only be moved.
    std::unique_ptr<int> result = allotrope::measure("one", 5, [&] {
        calls++;
        return std::unique_ptr<int>(new int(calls));
    });
    allotrope::measure("nothing", 6, [&] { calls++; });
    allotrope::measure("runs", 1, 2, 7, [&] { return ++calls; });
    {
        allotrope::window outer("outer");
        allotrope::window inner("inner", 8, ALLOTROPE_THIS_THREAD, ALLOTROPE_WAIT_FOR_QUIET);
        allotrope::window moved(std::move(inner));
        outer.close();
        allotrope::opted_out out;
    }
    try {
        allotrope::measure("throws", 1, []() -> int { throw std::runtime_error("as it should"); });
    } catch (const std::runtime_error &) {
        calls += 100;
    }
    bool dlsym_works = dlsym(nullptr, "printf") != nullptr;
    std::printf("called %d times, result %d, dlsym %d\n", calls, *result, dlsym_works);
}
