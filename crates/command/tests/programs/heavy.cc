// A source that takes a compiler some work.
#include <algorithm>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <vector>

int main() {
    std::map<std::string, std::vector<int>> positions;
    const std::regex word("[a-z]+");
    const std::string text = "one two three two one";
    int position = 0;
    for (std::sregex_iterator next(text.begin(), text.end(), word), end; next != end; ++next)
        positions[next->str()].push_back(position++);
    for (const auto &[name, where] : positions)
        std::cout << name << ' ' << where.size() << '\n';
    return 0;
}
