// The table's keys became names, which the template copies as it looks for the last one.
// BLAME last_key<Name>
#include <string>
#include <vector>

struct Name {
    std::string family;

    bool operator<(const Name &other) const { return family < other.family; }
};

#ifndef AFTER
using Key = long;
#else
using Key = Name;
#endif

template <typename T> __attribute__((noinline)) T last_key(const std::vector<T> &keys) {
    T last = keys.front(); // MARK blame
    for (const T &key : keys)
        if (last < key)
            last = key;
    return last;
}

int main() {
    std::vector<Key> keys;
    keys.reserve(3);
#ifndef AFTER
    keys = {9, 5, 7};
#else
    for (const char *family : {"Lovelace, Countess of", "Babbage, Charles", "Herschel, Caroline"})
        keys.push_back({family});
#endif
    for (int i = 0; i < 300; i++) {
        Key last = last_key(keys);
        asm volatile("" : : "r"(&last) : "memory");
    }
    return 0;
}
