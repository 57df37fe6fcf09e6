// The getter returns the title by value, where it returned a reference.
// BLAME Document::title
#include <string>

class Document {
public:
    explicit Document(std::string title) : title_(std::move(title)) {}

#ifndef AFTER
    __attribute__((noinline)) const std::string &title() const { return title_; }
#else
    __attribute__((noinline)) std::string title() const { return title_; } // MARK blame
#endif

private:
    std::string title_;
};

int main() {
    Document document("Sketch of the Analytical Engine");
    std::size_t sum = 0;
    for (int i = 0; i < 650; i++)
        sum += document.title().size();
    return sum == 0;
}
