// The undo step captures everything by copy, where it captured by reference.
// BLAME Editor::remember
#include <functional>
#include <string>
#include <vector>

struct Editor {
    std::string text = "a paragraph that somebody has written";
    std::vector<std::function<std::size_t()>> undo;

    void remember(const std::vector<int> &selection) {
        const std::string &before = text;
#ifndef AFTER
        undo.push_back([&] { return selection.size(); });
        (void)before;
#else
        undo.push_back([=] { return before.size() + selection.size(); }); // MARK blame
#endif
    }
};

int main() {
    Editor editor;
    std::vector<int> selection = {3, 14, 15};
    editor.undo.reserve(200);
    for (int i = 0; i < 200; i++)
        editor.remember(selection);
    std::size_t sum = 0;
    for (auto &step : editor.undo)
        sum += step();
    return sum == 0;
}
