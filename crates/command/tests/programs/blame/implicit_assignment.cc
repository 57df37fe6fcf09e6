// The last good sample is kept as a whole, by the assignment that the compiler wrote.
// BLAME Filter::add
#include <string>
#include <vector>

struct Sample {
    std::string sensor;
    std::vector<double> values;
    long time = 0;
};

struct Filter {
#ifndef AFTER
    long last = 0;
#else
    Sample last;
#endif

    void add(const Sample &sample) {
#ifndef AFTER
        last = sample.time;
#else
        last = sample; // MARK blame
#endif
    }
};

int main() {
    Sample sample{"temperature of the outer hull", {1, 2, 3, 4}, 0};
    long sum = 0;
    for (int i = 0; i < 300; i++) {
        Filter filter;
        sample.time = i;
        filter.add(sample);
        asm volatile("" : : "r"(&filter) : "memory");
        sum++;
    }
    return sum == 0;
}
