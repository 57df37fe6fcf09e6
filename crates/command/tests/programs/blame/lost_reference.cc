// The parameter lost its `const &`, so that the caller copies the name.
// BLAME total
#include <string>
#include <vector>

#ifndef AFTER
__attribute__((noinline)) static std::size_t score(const std::string &name) {
#else
__attribute__((noinline)) static std::size_t score(std::string name) {
#endif
    asm volatile("" : : "r"(&name) : "memory");
    return name.size() * 3;
}

static std::size_t total(const std::vector<std::string> &names) {
    std::size_t total = 0;
    for (const std::string &name : names)
        total += score(name); // MARK blame
    return total;
}

int main() {
    std::vector<std::string> names(700, "Augusta Ada King, Countess of Lovelace");
    return total(names) == 0;
}
