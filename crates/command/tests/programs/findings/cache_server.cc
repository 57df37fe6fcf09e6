// A server that handles 20,000 requests. `handle` builds an answer in a temporary string,
// and looks the user's session up.
//
// `cache_server unlimited`: SessionCache::load keeps a session of each user, so the cache
// grows with each request, and the destructor frees all of it at the end.
// `cache_server limited`: only the last 500 sessions are kept; SessionCache is full after
// 1/40 of the run.
// `cache_server table`: the limited cache, and a table of 30 MB that `config` loads at the
// start and keeps: one function holds most of the peak.

#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

struct Session {
    std::string name;
    std::vector<int> preferences;
};

class SessionCache {
    std::unordered_map<int, std::unique_ptr<Session>> sessions;
    std::deque<int> order;
    size_t limit;

  public:
    explicit SessionCache(size_t limit) : limit(limit) {}

    __attribute__((noinline)) std::unique_ptr<Session> load(int user) {
        auto session = std::make_unique<Session>(); // MARK session
        session->name = "a user whose name is not short " + std::to_string(user);
        session->preferences.assign(60, user);
        return session;
    }

    __attribute__((noinline)) Session &get(int user) {
        auto found = sessions.find(user);
        if (found == sessions.end()) {
            found = sessions.emplace(user, load(user)).first;
            order.push_back(user);
        }
        if (order.size() > limit) {
            sessions.erase(order.front());
            order.pop_front();
        }
        return *sessions.at(user);
    }
};

__attribute__((noinline)) std::string answer(const Session &session) {
    std::string text = "Hello, " + session.name;
    for (int i = 0; i < 4; i++)
        text += " and a preference " + std::to_string(session.preferences[i]);
    return text;
}

__attribute__((noinline)) size_t handle(SessionCache &cache, int request) {
    return answer(cache.get(request)).size();
}

__attribute__((noinline)) std::vector<std::string> config() {
    std::vector<std::string> table;
    table.reserve(3000);
    for (int i = 0; i < 3000; i++)
        table.emplace_back(10000, 'x'); // MARK table
    return table;
}

int main(int argc, char **argv) {
    std::string kind = argc > 1 ? argv[1] : "unlimited";
    std::vector<std::string> table;
    if (kind == "table")
        table = config();
    SessionCache cache(kind == "unlimited" ? 1000000 : 500);
    size_t sent = 0;
    for (int request = 0; request < 20000; request++) {
        sent += handle(cache, request);
        if (request % 100 == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    printf("%zu %zu\n", sent, table.size());
}
