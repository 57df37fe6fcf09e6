// Container churn: `churn THREADS ROUNDS`. Each thread fills and empties maps,
// strings and vectors the way programs do. Prints its own wall time in
// milliseconds, from the first thread's start to the last one's end.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

static unsigned step(unsigned &seed) { return seed = seed * 1664525u + 1013904223u; }

__attribute__((noinline)) static std::size_t strings(unsigned &seed) {
    std::vector<std::string> names;
    for (int i = 0; i < 40; i++)
        names.push_back(std::string(20 + step(seed) % 100, 'x'));
    return names.back().size();
}

__attribute__((noinline)) static std::size_t maps(unsigned &seed) {
    std::map<unsigned, std::string> ordered;
    std::unordered_map<unsigned, std::vector<int>> hashed;
    for (int i = 0; i < 60; i++) {
        ordered[step(seed) % 500] = std::string(30, 'y');
        hashed[step(seed) % 100].push_back(i);
    }
    return ordered.size() + hashed.size();
}

__attribute__((noinline)) static std::size_t tree(unsigned &seed, int depth) {
    struct Node {
        std::unique_ptr<Node> left, right;
        unsigned value = 0;
    };
    std::list<std::unique_ptr<Node>> roots;
    for (int i = 0; i < 8 * depth; i++) {
        auto root = std::make_unique<Node>();
        root->left = std::make_unique<Node>();
        root->right = std::make_unique<Node>();
        root->value = step(seed);
        roots.push_back(std::move(root));
    }
    return roots.size();
}

static void work(unsigned seed, long rounds, std::size_t *sum) {
    for (long i = 0; i < rounds; i++)
        *sum += strings(seed) + maps(seed) + tree(seed, 1 + static_cast<int>(seed % 4));
}

int main(int argc, char **argv) {
    const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
    const long rounds = argc > 2 ? std::atol(argv[2]) : 10000;
    std::vector<std::thread> workers;
    std::vector<std::size_t> sums(static_cast<std::size_t>(threads) * 64);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < threads; i++)
        workers.emplace_back(work, 7u + static_cast<unsigned>(i), rounds,
                             &sums[static_cast<std::size_t>(i) * 64]);
    for (auto &worker : workers)
        worker.join();
    const std::chrono::duration<double, std::milli> took =
        std::chrono::steady_clock::now() - start;
    std::printf("%.3f\n", took.count());
    return sums[0] == 0;
}
