// The path's parts are substrings, where they were views.
// BLAME longest_part
#include <string>
#include <string_view>

static std::size_t longest_part(const std::string &path) {
    std::size_t longest = 0;
    for (std::size_t at = 0; at < path.size();) {
        std::size_t end = path.find('/', at);
        if (end == std::string::npos)
            end = path.size();
#ifndef AFTER
        std::string_view part = std::string_view(path).substr(at, end - at);
#else
        std::string part = path.substr(at, end - at); // MARK blame
#endif
        asm volatile("" : : "r"(part.data()) : "memory");
        if (part.size() > longest)
            longest = part.size();
        at = end + 1;
    }
    return longest;
}

int main() {
    std::string path = "srv/the-customer-accounts/the-annual-statements/page";
    std::size_t sum = 0;
    for (int i = 0; i < 300; i++)
        sum += longest_part(path);
    return sum == 0;
}
