// The jobs wait in a linked list, where they waited in a vector.
// BLAME enqueue
#include <list>
#include <vector>

struct Job {
    int id;
    int priority;
};

#ifndef AFTER
using Jobs = std::vector<Job>;
#else
using Jobs = std::list<Job>;
#endif

static void enqueue(Jobs &jobs, int count) {
    for (int id = 0; id < count; id++)
        jobs.push_back({id, id % 5}); // MARK blame
}

int main() {
    Jobs jobs;
    long sum = 0;
    for (int round = 0; round < 10; round++) {
        enqueue(jobs, 100);
        for (const Job &job : jobs)
            sum += job.priority;
        jobs.clear();
    }
    return sum == 0;
}
