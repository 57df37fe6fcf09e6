// The handler captures two more numbers, which no longer fit into the function object.
// BLAME Button::on_click
#include <functional>
#include <vector>

struct Button {
    std::vector<std::function<int(int)>> handlers;

    __attribute__((noinline)) void on_click(int *sum, int id, int x, int y) {
#ifndef AFTER
        (void)x, (void)y;
        handlers.push_back([sum, id](int n) { return *sum += id + n; });
#else
        handlers.push_back([sum, id, x, y](int n) { return *sum += id + x * y + n; }); // MARK blame
#endif
    }
};

int main() {
    int sum = 0;
    Button button;
    button.handlers.reserve(800);
    for (int i = 0; i < 800; i++)
        button.on_click(&sum, i, i / 10, i % 10);
    for (auto &handler : button.handlers)
        handler(1);
    return sum == 0;
}
