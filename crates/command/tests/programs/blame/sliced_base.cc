// The event's common part is copied out of it, for which a reference was enough.
// BLAME describe
#include <string>

struct Event {
    std::string source;
    int priority = 0;
};

struct KeyPress : Event {
    std::string keys;
};

__attribute__((noinline)) static int weight(const Event &event) {
    return event.priority + static_cast<int>(event.source.size());
}

__attribute__((noinline)) static int describe(const KeyPress &press) {
#ifndef AFTER
    const Event &event = press;
#else
    Event event = press; // MARK blame
#endif
    return weight(event) + static_cast<int>(press.keys.size());
}

int main() {
    KeyPress press;
    press.source = "the keyboard of the second terminal";
    press.keys = "control and shift and the left arrow";
    int sum = 0;
    for (int i = 0; i < 400; i++)
        sum += describe(press);
    return sum == 0;
}
