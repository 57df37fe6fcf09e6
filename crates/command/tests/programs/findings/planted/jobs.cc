// blamed: make_job
// A thread takes jobs from a std::deque, 4,000 of them, more slowly than they are made.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

struct Job {
    char data[256];
    int number;
};

static std::mutex mutex;
static std::condition_variable ready;
static std::deque<std::unique_ptr<Job>> jobs;

__attribute__((noinline)) static std::unique_ptr<Job> make_job(int number) {
    auto job = std::make_unique<Job>();
    job->number = number;
    return job;
}

static void work(long &sum) {
    for (int done = 0; done < 4000; done++) {
        std::unique_lock<std::mutex> lock(mutex);
        ready.wait(lock, [] { return !jobs.empty(); });
        auto job = std::move(jobs.front());
        jobs.pop_front();
        lock.unlock();
        sum += job->number;
        if (done % 8 == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

int main() {
    long sum = 0;
    std::thread worker(work, std::ref(sum));
    for (int number = 0; number < 4000; number++) {
        auto job = make_job(number);
        std::lock_guard<std::mutex> lock(mutex);
        jobs.push_back(std::move(job));
        ready.notify_one();
    }
    worker.join();
    printf("%ld\n", sum);
}
