// blamed: Resolver::resolve
// Answers 30,000 questions; the resolver keeps every answer that it ever gave.
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <thread>

class Resolver {
    std::map<std::string, std::string> answers;

  public:
    __attribute__((noinline)) size_t resolve(const std::string &name) {
        auto &answer = answers[name];
        if (answer.empty())
            answer = "the address of the host that is called " + name;
        return answer.size();
    }
};

__attribute__((noinline)) static std::string question(int number) {
    return "host-with-a-long-name-" + std::to_string(number) + ".example";
}

int main() {
    Resolver resolver;
    size_t sum = 0;
    for (int number = 0; number < 30000; number++) {
        sum += resolver.resolve(question(number));
        if (number % 200 == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    printf("%zu\n", sum);
}
