// The property became a std::any, into which the larger values do not fit.
// BLAME Node::set
#include <any>
#include <variant>

struct Box {
    double left, top, width, height;
};

struct Node {
#ifndef AFTER
    std::variant<int, Box> property = 0;
#else
    std::any property = 0;
#endif

    void set(const Box &box) {
        property = box; // MARK blame
    }
};

int main() {
    Node node;
    for (int i = 0; i < 900; i++) {
        node.set({0, 0, static_cast<double>(i), 1});
        asm volatile("" : : "r"(&node) : "memory");
    }
    return 0;
}
