// The reserve() before the loop was lost.
// BLAME collect
#include <vector>

__attribute__((noinline)) static std::vector<int> collect(int count) {
    std::vector<int> result;
#ifndef AFTER
    result.reserve(count);
#endif
    for (int i = 0; i < count; i++)
        result.push_back(i); // MARK blame
    return result;
}

int main() {
    long sum = 0;
    for (int i = 0; i < 100; i++)
        sum += collect(1000).size();
    return sum == 0;
}
