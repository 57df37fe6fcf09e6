// The program that `allotrope test` runs: a case for each word. Without
// Allotrope it is an ordinary program that does the same.
#include <cstdio>
#include <string>
#include <vector>

#include "allotrope.h"
#include "codec.h"

namespace {

constexpr int iterations = 1000;

// Fields of 20 characters each.
std::vector<std::string> fields(std::size_t count) {
    return std::vector<std::string>(count, "twenty characters---");
}

// Two windows, so that the cases are encode/small and encode/large.
std::size_t run_encode() {
    std::size_t bytes = 0;
    for (const auto &[name, count] : {std::pair{"small", 4}, std::pair{"large", 100}}) {
        const std::vector<std::string> input = fields(static_cast<std::size_t>(count));
        allotrope::measure(name, 1, 10, iterations, [&] {
            for (int i = 0; i < iterations; i++) {
                bytes += encode(input).size();
            }
        });
    }
    return bytes;
}

// A window named as the test: the case is decode.
std::size_t run_decode() {
    const std::string line = encode(fields(4));
    std::size_t found = 0;
    allotrope::measure("decode", 1, 10, iterations, [&] {
        for (int i = 0; i < iterations; i++) {
            found += decode(line).size();
        }
    });
    return found;
}

// No window: measured from its first to its last instruction.
std::size_t run_once() {
    return decode(encode(fields(50))).size();
}

}  // namespace

int main(int count, char **words) {
    const std::string word = count > 1 ? words[1] : "";
    if (word == "encode") {
        std::printf("%zu\n", run_encode());
    } else if (word == "decode") {
        std::printf("%zu\n", run_decode());
    } else if (word == "once") {
        std::printf("%zu\n", run_once());
    } else {
        std::fprintf(stderr, "usage: bench encode|decode|once\n");
        return 2;
    }
    return 0;
}
