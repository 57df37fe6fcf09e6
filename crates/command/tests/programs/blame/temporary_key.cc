// A string is made of each word to index the counts, which were indexed by views.
// BLAME count
#include <string>
#include <string_view>
#include <unordered_map>

#ifndef AFTER
using Counts = std::unordered_map<std::string_view, int>;
#else
using Counts = std::unordered_map<std::string, int>;
#endif

__attribute__((noinline)) static void count(Counts &counts, std::string_view text) {
    while (!text.empty()) {
        std::size_t end = text.find(' ');
        if (end == text.npos)
            end = text.size();
        std::string_view word = text.substr(0, end);
#ifndef AFTER
        counts[word]++;
#else
        counts[std::string(word)]++; // MARK blame
#endif
        text.remove_prefix(end == text.size() ? end : end + 1);
    }
}

int main() {
    Counts counts;
    for (int i = 0; i < 200; i++)
        count(counts, "incomprehensibilities of counterrevolutionaries notwithstanding");
    return counts.empty();
}
