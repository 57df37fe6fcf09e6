#include "codec.h"

#include <algorithm>

std::string encode(const std::vector<std::string> &fields) {
    std::size_t size = fields.size();
    for (const std::string &field : fields) {
        size += field.size();
    }
    std::string line;
    line.reserve(size);
    for (const std::string &field : fields) {
        line += field;
        line += ',';
    }
    return line;
}

std::vector<std::string> decode(const std::string &line) {
    std::vector<std::string> fields;
    fields.reserve(static_cast<std::size_t>(std::count(line.begin(), line.end(), ',')));
    std::size_t start = 0;
    for (std::size_t end; (end = line.find(',', start)) != std::string::npos; start = end + 1) {
        fields.emplace_back(line, start, end - start);
    }
    return fields;
}
