// The sorted vector of offsets became a map.
// BLAME read_index
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#ifndef AFTER
using Index = std::vector<std::pair<int, long>>;
#else
using Index = std::map<int, long>;
#endif

static Index read_index(int entries) {
    Index index;
#ifndef AFTER
    index.reserve(entries);
#endif
    for (int entry = 0; entry < entries; entry++) {
        int key = entry * 7919 % 4001;
#ifndef AFTER
        index.emplace_back(key, entry);
#else
        index.emplace(key, entry); // MARK blame
#endif
    }
#ifndef AFTER
    std::sort(index.begin(), index.end());
#endif
    return index;
}

int main() {
    return read_index(2000).size() == 0;
}
