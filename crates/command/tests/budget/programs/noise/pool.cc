#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>
#include <unordered_map>
#include <string>
std::mutex m; std::condition_variable c; std::deque<std::function<void()>> q; bool done;
int main() { std::vector<std::thread> t; for (int i = 0; i < 4; i++) t.emplace_back([] { std::vector<std::string> kept; for (;;) { std::unique_lock l(m); c.wait(l, [] { return done || !q.empty(); }); if (q.empty()) return; auto f = std::move(q.front()); q.pop_front(); l.unlock(); f(); kept.push_back(std::string(40, 'x')); } });
 std::unordered_map<void *, int> byptr;
 for (int i = 0; i < 1000; i++) { auto p = std::make_shared<std::string>(100, 'y'); byptr[p.get()]++; { std::lock_guard l(m); q.emplace_back([p, i] { volatile int x = p->size() + i; (void)x; }); } c.notify_one(); }
 { std::lock_guard l(m); done = true; } c.notify_all(); for (auto &x : t) x.join(); }
