// What the header has for C++, in a function that calls.c calls too. The lines
// that a recorder must have seen are in tests/header.rs, as CXX_CALLS.
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
    std::unique_ptr<int> made = allotrope::measure("one", 5, [&] {
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
    bool dlsym_is_there = dlsym(nullptr, "printf") != nullptr;
    std::printf("called %d times, made %d, dlsym %d\n", calls, *made, dlsym_is_there);
}
