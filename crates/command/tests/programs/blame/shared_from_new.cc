// The shared pointer is made from a `new`, which takes a block of its own for the counts.
// BLAME Pool::take
#include <memory>
#include <vector>

struct Connection {
    explicit Connection(int port) : port(port) {}
    int port;
    char state[40] = {};
};

struct Pool {
    std::vector<std::shared_ptr<Connection>> taken;

    void take(int port) {
#ifndef AFTER
        taken.push_back(std::make_shared<Connection>(port));
#else
        taken.push_back(std::shared_ptr<Connection>(new Connection(port))); // MARK blame
#endif
    }
};

int main() {
    Pool pool;
    pool.taken.reserve(600);
    for (int i = 0; i < 600; i++)
        pool.take(i);
    return pool.taken.back()->port == 0;
}
