// A line without a number is reported by an exception, where it was by a return value.
// BLAME number_in
#include <cstdlib>
#include <stdexcept>

static int number_in(const char *line) {
    char *end;
    long number = strtol(line, &end, 10);
    if (end == line)
#ifndef AFTER
        return -1;
#else
        throw std::invalid_argument("the line does not start with a number"); // MARK blame
#endif
    return static_cast<int>(number);
}

static int number_or_zero(const char *line) {
    try {
        int number = number_in(line);
        return number < 0 ? 0 : number;
    } catch (const std::invalid_argument &) {
        return 0;
    }
}

int main() {
    static const char *const lines[] = {"12 eggs", "some flour"};
    int sum = 0;
    for (int i = 0; i < 600; i++)
        sum += number_or_zero(lines[i % 2]);
    return sum == 0;
}
