// A list of flags became a list of names.
// BLAME mark
#include <string>
#include <vector>

#ifndef AFTER
using Marks = std::vector<bool>;
#else
using Marks = std::vector<std::string>;
#endif

static void mark(Marks &marks, unsigned at) {
#ifndef AFTER
    marks[at] = true;
#else
    marks[at] = "has been seen before"; // MARK blame
#endif
}

int main() {
    Marks marks(1000);
    for (unsigned at = 0; at < 1000; at += 2)
        mark(marks, at);
    return marks[0] == marks[1];
}
