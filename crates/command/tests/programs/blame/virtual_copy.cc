// The style hands out a copy of itself, where it was shared.
// BLAME Bold::shared
#include <memory>
#include <string>

struct Style : std::enable_shared_from_this<Style> {
    virtual ~Style() = default;
    virtual std::shared_ptr<const Style> shared() const = 0;
    virtual int weight() const = 0;
};

struct Bold : Style {
    int strength = 700;

    std::shared_ptr<const Style> shared() const override {
#ifndef AFTER
        return shared_from_this();
#else
        return std::make_shared<Bold>(*this); // MARK blame
#endif
    }

    int weight() const override { return strength; }
};

__attribute__((noinline)) static int weigh(const Style &style, int letters) {
    int weight = 0;
    for (int i = 0; i < letters; i++)
        weight += style.shared()->weight();
    return weight;
}

int main() {
    std::shared_ptr<Style> style = std::make_shared<Bold>();
    return weigh(*style, 1000) == 0;
}
