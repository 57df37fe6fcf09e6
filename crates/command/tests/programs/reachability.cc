/* Objects of C++ of which it is known what still points to them at the exit: `reachability CASE`. */
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#define ALONE __attribute__((noipa))

struct Counted {
    long value;
    static long alive;
    Counted() { alive++; }
    ~Counted() { alive--; }
};
long Counted::alive;

static void *volatile global;

ALONE static void wipe_stack() {
    volatile char bytes[64 << 10];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = 0;
}

ALONE static Counted *make_array() {
    return new Counted[10];
}

/* `make_array`: 1 block that begins with the number of objects; a variable has the address behind that:
 * reachable. */
ALONE static void array() {
    global = make_array();
}

/* `make_array`: 1 block, definitely lost. */
ALONE static void lost_array() {
    make_array();
}

ALONE static std::vector<std::string> *make_strings() {
    auto *strings = new std::vector<std::string>;
    strings->reserve(10);
    for (int i = 0; i < 10; i++)
        strings->emplace_back(100, 'a');
    return strings;
}

/* `make_strings`: 1 vector, its memory and 10 texts: 12 blocks, reachable. */
ALONE static void strings() {
    global = make_strings();
}

/* `make_strings`: 12 blocks: the vector definitely lost, 11 indirectly. */
ALONE static void lost_strings() {
    make_strings();
}

struct Base1 {
    virtual ~Base1() = default;
    long value = 0;
};
struct Base2 {
    virtual ~Base2() = default;
    long value = 0;
};
struct Both : Base1, Base2 {};

ALONE static Base2 *make_both() {
    return new Both;
}

/* `make_both`: 1 block, of which a variable has the address of the second base class: reachable. */
ALONE static void second_base() {
    global = make_both();
}

struct Parent {
    std::shared_ptr<Parent> other;
};

ALONE static std::shared_ptr<Parent> make_parent() {
    return std::shared_ptr<Parent>(new Parent);
}

/* `make_parent`: 2 objects that own each other, with 2 blocks that count their owners: of the 4 blocks 1 is
 * definitely lost, 3 indirectly. */
ALONE static void owners() {
    auto first = make_parent(), second = make_parent();
    first->other = second;
    second->other = first;
}

ALONE static std::map<int, std::string> *make_map() {
    auto *map = new std::map<int, std::string>;
    for (int i = 0; i < 7; i++)
        (*map)[i] = std::string(100, 'b');
    return map;
}

/* `make_map`: 1 map, 7 nodes and 7 texts, lost: 1 definitely, 14 indirectly. */
ALONE static void lost_map() {
    make_map();
}

/* Runs a case further in than the frame of `wipe_stack`, which does not wipe itself. */
ALONE static void run_further_in(void (*run)()) {
    volatile char space[1024];
    space[0] = 0;
    run();
    space[1] = 0;
}

int main(int count, char **arguments) {
    const char *name = count > 1 ? arguments[1] : "";
    static const struct {
        const char *name;
        void (*run)();
    } cases[] = {
        {"array", array},   {"lost-array", lost_array},   {"strings", strings},   {"lost-strings", lost_strings},
        {"second-base", second_base}, {"owners", owners}, {"lost-map", lost_map},
    };
    for (const auto &it : cases)
        if (strcmp(name, it.name) == 0)
            run_further_in(it.run);
    wipe_stack();
    return 0;
}
