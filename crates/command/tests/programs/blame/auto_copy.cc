// The loop's variable lost its `&`, so that each entry is copied.
// BLAME pages
#include <string>
#include <utility>
#include <vector>

using Entry = std::pair<std::string, int>;

__attribute__((noinline)) static int pages(const std::vector<Entry> &entries) {
    int pages = 0;
#ifndef AFTER
    for (const auto &entry : entries) {
#else
    for (auto entry : entries) { // MARK blame
#endif
        if (!entry.first.empty())
            pages += entry.second;
    }
    return pages;
}

int main() {
    std::vector<Entry> entries(60, {"the history of the analytical engine", 12});
    int sum = 0;
    for (int i = 0; i < 20; i++)
        sum += pages(entries);
    return sum == 0;
}
