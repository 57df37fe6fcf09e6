// The look-up returns an optional copy, where it returned a pointer.
// BLAME Users::find
#include <optional>
#include <string>
#include <vector>

struct User {
    int id;
    std::string name;
};

struct Users {
    std::vector<User> users;

#ifndef AFTER
    __attribute__((noinline)) const std::string *find(int id) const {
#else
    __attribute__((noinline)) std::optional<std::string> find(int id) const {
#endif
        for (const User &user : users)
            if (user.id == id)
#ifndef AFTER
                return &user.name;
        return nullptr;
#else
                return user.name; // MARK blame
        return std::nullopt;
#endif
    }
};

int main() {
    Users users;
    for (int id = 0; id < 10; id++)
        users.users.push_back({id, "a user with a rather long name"});
    std::size_t sum = 0;
    for (int i = 0; i < 1000; i++)
        sum += users.find(i % 10)->size();
    return sum == 0;
}
