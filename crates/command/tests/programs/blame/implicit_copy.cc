// The request is copied to change one field, and nobody wrote its copy constructor.
// BLAME forward
#include <string>
#include <vector>

struct Header {
    std::string name;
    std::string value;
};

struct Request {
    std::string path;
    std::vector<Header> headers;
    int hops = 0;
};

__attribute__((noinline)) static int send(const Request &request, int hops) {
    asm volatile("" : : "r"(&request) : "memory");
    return hops + static_cast<int>(request.headers.size());
}

__attribute__((noinline)) static int forward(const Request &request) {
#ifndef AFTER
    return send(request, request.hops + 1);
#else
    Request forwarded = request; // MARK blame
    forwarded.hops++;
    return send(forwarded, forwarded.hops);
#endif
}

int main() {
    Request request;
    request.path = "/accounts/2024/statements/march";
    request.headers.push_back({"accept-language-and-charset", "en-GB, en;q=0.9, *;q=0.1"});
    request.headers.push_back({"x-forwarded-for-customer", "the customer of the customer"});
    int sum = 0;
    for (int i = 0; i < 200; i++)
        sum += forward(request);
    return sum == 0;
}
