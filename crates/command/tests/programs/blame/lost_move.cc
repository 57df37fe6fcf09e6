// The record got a destructor and thereby lost its moves, so that it is copied into the list.
// BLAME read_all
#include <string>
#include <utility>
#include <vector>

struct Record {
    std::string key;
    std::string value;

#ifdef AFTER
    ~Record() { asm volatile("" : : "r"(this) : "memory"); }
#endif
};

__attribute__((noinline)) static std::vector<Record> read_all(int count) {
    std::vector<Record> records;
    records.reserve(count);
    for (int i = 0; i < count; i++) {
        Record record;
        record.key.assign(30, static_cast<char>('a' + i % 26));
        record.value.assign(50, 'v');
        records.push_back(std::move(record)); // MARK blame
    }
    return records;
}

int main() {
    return read_all(400).empty();
}
