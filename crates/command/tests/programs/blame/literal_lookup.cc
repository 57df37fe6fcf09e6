// The map lost its transparent comparison, so that a literal becomes a string at each look-up.
// BLAME timeout
#include <map>
#include <string>

#ifndef AFTER
using Settings = std::map<std::string, int, std::less<>>;
#else
using Settings = std::map<std::string, int>;
#endif

static int timeout(const Settings &settings) {
    auto found = settings.find("network.connection.timeout"); // MARK blame
    return found == settings.end() ? 0 : found->second;
}

int main() {
    Settings settings;
    settings["network.connection.timeout"] = 30;
    settings["network.connection.retries"] = 3;
    int sum = 0;
    for (int i = 0; i < 1000; i++)
        sum += timeout(settings);
    return sum == 0;
}
