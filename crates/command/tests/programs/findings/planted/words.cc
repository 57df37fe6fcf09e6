// blamed: trimmed
// Trims 100,000 words, each in a string of its own.
#include <cstdio>
#include <string>

__attribute__((noinline)) static std::string trimmed(const std::string &word) {
    size_t from = word.find_first_not_of(' '), to = word.find_last_not_of(' ');
    return word.substr(from, to - from + 1);
}

int main() {
    std::string word = "   a word that is too long for the string itself   ";
    size_t sum = 0;
    for (int i = 0; i < 100000; i++)
        sum += trimmed(word).size();
    printf("%zu\n", sum);
}
