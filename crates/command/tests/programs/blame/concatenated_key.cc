// The cache's key is put together of strings, where it was printed to a buffer.
// BLAME Cache::has
#include <cstdio>
#include <set>
#include <string>

struct Cache {
    std::set<std::string, std::less<>> keys;

    __attribute__((noinline)) bool has(int id, int zoom) const {
#ifndef AFTER
        char key[64];
        snprintf(key, sizeof key, "map/of/tiles/%d/%d", zoom, id);
#else
        auto key = "map/of/tiles/" + std::to_string(zoom) + "/" + std::to_string(id); // MARK blame
#endif
        return keys.find(key) != keys.end();
    }
};

int main() {
    Cache cache;
    cache.keys.insert("map/of/tiles/3/17");
    int sum = 0;
    for (int i = 0; i < 600; i++)
        sum += cache.has(i % 32, i % 8);
    return sum > 600;
}
