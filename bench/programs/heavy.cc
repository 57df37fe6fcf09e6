// A file that keeps a C++ compiler busy: the parts of the standard library that
// are templates through and through, instantiated with several types each.
#include <algorithm>
#include <any>
#include <chrono>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <ranges>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <int N> struct Tag {
    int value = N;
    auto operator<=>(const Tag &) const = default;
};

template <int N> std::size_t containers() {
    std::map<Tag<N>, std::vector<std::string>> ordered;
    std::unordered_map<std::string, std::deque<Tag<N>>> hashed;
    std::set<std::tuple<Tag<N>, std::string>> set;
    std::variant<Tag<N>, std::string, std::vector<int>> either = Tag<N>{};
    ordered[{}].push_back(std::to_string(N));
    hashed["x"].push_back({});
    set.emplace(Tag<N>{}, "y");
    std::vector<Tag<N>> tags(N + 1);
    std::ranges::sort(tags);
    std::stable_sort(tags.begin(), tags.end());
    std::function<std::size_t(const std::string &)> size = [&](const std::string &text) {
        return text.size() + std::visit([](auto &value) { return sizeof value; }, either);
    };
    return ordered.size() + hashed.size() + set.size() + size("z") + tags.size();
}

template <int... N> std::size_t all(std::integer_sequence<int, N...>) {
    return (containers<N>() + ...);
}

int main(int argc, char **argv) {
    const std::regex word("([a-z]+)-([0-9]+)");
    std::smatch match;
    const std::string text = argc > 1 ? argv[1] : "row-12";
    std::mt19937_64 random(7);
    auto later = std::async(std::launch::async, [&] { return random(); });
    std::ostringstream out;
    if (std::regex_match(text, match, word))
        out << match[1] << std::filesystem::path(text).extension() << later.get();
    std::cout << out.str() << all(std::make_integer_sequence<int, 4>()) << '\n';
    return 0;
}
