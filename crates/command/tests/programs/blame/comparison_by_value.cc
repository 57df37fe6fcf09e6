// The comparison of the sort takes its people by value.
// BLAME by_age
#include <algorithm>
#include <string>
#include <vector>

struct Person {
    std::string name;
    int age;
};

using People = std::vector<Person>;

__attribute__((noinline)) static void by_age(People &all) {
#ifndef AFTER
    std::sort(all.begin(), all.end(), [](auto &a, auto &b) { return a.age < b.age; });
#else
    std::sort(all.begin(), all.end(), [](auto a, auto b) { return a.age < b.age; }); // MARK blame
#endif
}

int main() {
    People people;
    people.reserve(100);
    for (int i = 0; i < 100; i++)
        people.push_back({"somebody with quite a long name", i * 37 % 101});
    by_age(people);
    return people.empty();
}
