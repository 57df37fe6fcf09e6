// Each line is written by a string stream of its own, where one buffer served all.
// BLAME write_all
#include <cstdio>
#include <sstream>
#include <string>

__attribute__((noinline)) static std::size_t write_all(int lines) {
    std::size_t bytes = 0;
#ifndef AFTER
    char buffer[64];
#endif
    for (int line = 0; line < lines; line++) {
#ifndef AFTER
        bytes += snprintf(buffer, sizeof buffer, "line %d of the whole report\n", line);
#else
        std::ostringstream out;
        out << "line " << line << " of the whole report\n"; // MARK blame
        bytes += out.tellp();
#endif
    }
    return bytes;
}

int main() {
    return write_all(500) == 0;
}
