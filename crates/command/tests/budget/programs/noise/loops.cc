// Two event loops exchange 1,000 requests over socket pairs; how many arrive in one
// read depends on scheduling, and each read allocates.
#include <sys/socket.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>
static const int TIMES = 1000;
static void serve(int in, int out) {
    int e = epoll_create1(0); epoll_event ev{}; ev.events = EPOLLIN; epoll_ctl(e, EPOLL_CTL_ADD, in, &ev);
    std::string pending;
    for (int got = 0; got < TIMES;) {
        epoll_event r; if (epoll_wait(e, &r, 1, -1) < 1) continue;
        auto buffer = std::make_unique<char[]>(4096);
        ssize_t n = read(in, buffer.get(), 4096); if (n <= 0) break;
        pending.append(buffer.get(), n);
        std::vector<std::string> requests;
        while (pending.size() >= 32) { requests.push_back(pending.substr(0, 32)); pending.erase(0, 32); }
        got += requests.size();
        for (auto &q : requests) if (write(out, q.data(), 32) != 32) return;
    }
    close(e);
}
int main() {
    int a[2], b[2]; socketpair(AF_UNIX, SOCK_STREAM, 0, a); socketpair(AF_UNIX, SOCK_STREAM, 0, b);
    std::thread server(serve, a[0], b[0]);
    std::thread client([&] { char q[32] = "GET /"; for (int i = 0; i < TIMES; i++) if (write(a[1], q, 32) != 32) return; });
    std::string back; char buffer[512]; size_t n = 0;
    while (n < TIMES * 32) { ssize_t r = read(b[1], buffer, sizeof buffer); if (r <= 0) break; auto copy = std::make_unique<std::string>(buffer, r); n += copy->size(); }
    client.join(); server.join();
}
