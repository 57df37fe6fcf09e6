// The tree owns its nodes by unique pointers, where they lay in one vector.
// BLAME Tree::insert
#include <memory>
#include <vector>

struct Node {
    int key = 0;
#ifndef AFTER
    int left = -1, right = -1;
#else
    std::unique_ptr<Node> left, right;
#endif
};

struct Tree {
#ifndef AFTER
    std::vector<Node> nodes;

    explicit Tree(int capacity) { nodes.reserve(capacity); }

    __attribute__((noinline)) void insert(int key) {
        int at = nodes.empty() ? -1 : 0;
        int *place = nullptr;
        while (at >= 0) {
            place = key < nodes[at].key ? &nodes[at].left : &nodes[at].right;
            at = *place;
        }
        if (place)
            *place = static_cast<int>(nodes.size());
        nodes.emplace_back().key = key;
    }
#else
    std::unique_ptr<Node> root;

    explicit Tree(int) {}

    __attribute__((noinline)) void insert(int key) {
        std::unique_ptr<Node> *place = &root;
        while (*place)
            place = key < (*place)->key ? &(*place)->left : &(*place)->right;
        *place = std::make_unique<Node>(); // MARK blame
        (*place)->key = key;
    }
#endif
};

int main() {
    Tree tree(500);
    for (int i = 0; i < 500; i++)
        tree.insert(i * 7919 % 503);
    asm volatile("" : : "r"(&tree) : "memory");
    return 0;
}
