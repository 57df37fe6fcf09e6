// The queue of the breadth-first search is made for each search, where one was used again.
// BLAME Graph::reach
#include <queue>
#include <vector>

struct Graph {
    std::vector<std::vector<int>> edges;
    std::vector<int> seen;
#ifndef AFTER
    std::queue<int> open;
#endif

    __attribute__((noinline)) int reach(int start, int round) {
#ifdef AFTER
        std::queue<int> open; // MARK blame
#endif
        int count = 0;
        for (open.push(start); !open.empty(); open.pop()) {
            int node = open.front();
            if (seen[node] == round)
                continue;
            seen[node] = round;
            count++;
            for (int next : edges[node])
                open.push(next);
        }
        return count;
    }
};

int main() {
    Graph graph;
    graph.edges = {{1, 2}, {3}, {3}, {0}};
    graph.seen.resize(graph.edges.size());
    int sum = 0;
    for (int round = 1; round <= 300; round++)
        sum += graph.reach(round % 4, round);
    return sum == 0;
}
