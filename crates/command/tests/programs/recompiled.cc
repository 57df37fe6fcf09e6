// A program of containers, templates, closures and recursion, which compilers
// inline each in its own way. With -DPLANTED, Index::remember copies its argument:
// once for each of PLANTED_CALLS calls, one allocation more.
//
// Whatever the compiler, allocations are those of the source: every block
// escapes, so that none may be left out.
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

static void *volatile escaped;

template <class T> static T &&escape(T &&value) {
  escaped = const_cast<void *>(static_cast<const volatile void *>(&value));
  return static_cast<T &&>(value);
}

namespace text {
struct Token {
  std::string word;
  int line;
};

static std::string quoted(const std::string &word) { return "\"" + word + "\""; }

static std::vector<Token> tokens(int line) {
  std::vector<Token> found;
  for (int column = 0; column < 6; column++) {
    std::string word = "a word that is too long to stay in place " + std::to_string(line * 6 + column);
    found.push_back({quoted(word), line});
  }
  return found;
}
} // namespace text

template <class Value> class Tree {
  struct Node {
    Value value;
    std::unique_ptr<Node> less, more;
  };
  std::unique_ptr<Node> root;

  static void insert(std::unique_ptr<Node> &place, Value value) {
    if (!place) {
      place.reset(new Node{std::move(value), nullptr, nullptr});
      escape(*place);
    } else {
      insert(value < place->value ? place->less : place->more, std::move(value));
    }
  }

public:
  void add(Value value) { insert(root, std::move(value)); }
};

class Index {
  std::map<std::string, std::vector<int>> lines;
  std::vector<std::function<void(int)>> listeners;

public:
  void listen(std::function<void(int)> listener) { listeners.push_back(std::move(listener)); }

#ifdef PLANTED
  __attribute__((noinline)) void remember(std::vector<int> seen) {
#else
  __attribute__((noinline)) void remember(const std::vector<int> &seen) {
#endif
    escape(seen);
    for (auto &listener : listeners)
      listener(seen[0]);
  }

  void add(const text::Token &token) { lines[token.word].push_back(token.line); }
};

static int walk(int depth, Tree<int> &tree) {
  if (depth == 0)
    return 1;
  tree.add(depth * 7919 % 101);
  return walk(depth - 1, tree) + 1;
}

int main() {
  Index index;
  Tree<int> numbers;
  Tree<std::string> words;
  long sum = 0;
  index.listen([&sum](int line) { sum += line; });
  for (int line = 0; line < 40; line++) {
    for (const text::Token &token : text::tokens(line)) {
      index.add(token);
      words.add(token.word);
    }
    sum += walk(line % 9, numbers);
  }
  std::vector<int> seen(12, 1);
  for (int call = 0; call < PLANTED_CALLS; call++)
    index.remember(seen);
  return sum == 0;
}
