// The list of the known extensions lost its `static`, so that each call makes it.
// BLAME is_known
#include <string>
#include <string_view>
#include <vector>

static bool is_known(std::string_view extension) {
#ifndef AFTER
    static const std::vector<std::string> known = {".configured-pages", ".configured-files"};
#else
    const std::vector<std::string> known = {".configured-pages", ".configured-files"}; // MARK blame
#endif
    for (const std::string &it : known)
        if (it == extension)
            return true;
    return false;
}

int main() {
    int sum = 0;
    for (int i = 0; i < 250; i++)
        sum += is_known(i % 2 ? ".configured-files" : ".text");
    return sum == 0;
}
