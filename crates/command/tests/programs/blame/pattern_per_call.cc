// The pattern is compiled at each call, since it is no longer static.
// BLAME is_date
#include <regex>
#include <string>

__attribute__((noinline)) static bool is_date(const char *text) {
#ifndef AFTER
    static const std::regex pattern("[0-9]{4}-[0-9]{2}-[0-9]{2}");
#else
    const std::regex pattern("[0-9]{4}-[0-9]{2}-[0-9]{2}"); // MARK blame
#endif
    return std::regex_match(text, pattern);
}

int main() {
    int dates = 0;
    for (int i = 0; i < 20; i++)
        dates += is_date(i % 2 ? "2024-03-01" : "the first of March");
    return dates == 0;
}
