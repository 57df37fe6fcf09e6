// Objects of several blocks, which different functions allocate through `mem_alloc`. 60 steps of
// 10 ms each; a table of 400,000 bytes (`open_table`) is there from the start to the end.
//
// `parts leak`: each step makes 50 orders of three blocks (`order_new` 40 bytes, `order_name` 100,
// `order_lines` 300); 30 are freed at once, 20 are lost: 1,200 of 3,000 orders, 3,600 blocks.
// `parts copies`: each step copies an order 400 times to look at it, and frees the copy:
// 24,000 copies of three blocks, of which only the last is freed before the next allocation.
// `parts backlog`: one thread: 50 requests of 400 bytes come in each step, and 20 are
// served, the oldest first; all are freed at the end. At most 30 * 60 wait.
// `parts limited`: as `backlog`, but no more come in than are served, 20.
// `parts steps`: 1,200 requests come in the first 20 steps, and 30 are served in each of the 40 others.
// `parts history`: as `backlog`, but nothing is served: it only grows, and is freed at the end
// in the order of allocation.
// `parts rest`: step 10 makes 30,000 nodes of 120 bytes, frees all but every 50th, and the 600 that are left
// at the end: about 600 pages for 72,000 bytes.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ASIDE __attribute__((noinline)) static

struct order {
    char *name;
    int *lines;
    char rest[24];
};
struct request {
    struct request *next;
    char text[392];
};
static struct request *first, **last = &first;
static char *nodes[30000];
static volatile long sum;

ASIDE void *mem_alloc(size_t size) {
    void *block = malloc(size);
    if (!block)
        abort();
    return block;
}

ASIDE struct order *order_new(void) {
    return mem_alloc(sizeof(struct order));
}

ASIDE void order_name(struct order *order, int number) {
    order->name = mem_alloc(100);
    snprintf(order->name, 100, "order %d", number);
}

ASIDE void order_lines(struct order *order) {
    order->lines = mem_alloc(300);
    memset(order->lines, 1, 300);
}

ASIDE struct order *order_make(int number) {
    struct order *order = order_new();
    order_name(order, number);
    order_lines(order);
    return order;
}

ASIDE void order_free(struct order *order) {
    free(order->lines);
    free(order->name);
    free(order);
}

ASIDE void receive(int number) {
    struct request *request = mem_alloc(sizeof *request);
    request->next = NULL;
    request->text[0] = (char)number;
    *last = request;
    last = &request->next;
}

ASIDE int serve(void) {
    struct request *request = first;
    if (!request)
        return 0;
    first = request->next;
    if (!first)
        last = &first;
    sum += request->text[0];
    free(request);
    return 1;
}

ASIDE char *node_new(int number) {
    char *node = mem_alloc(120);
    node[0] = (char)number;
    return node;
}

ASIDE void *open_table(void) {
    return mem_alloc(400000);
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "";
    struct timespec pause = {0, 10000000};
    void *table = open_table();
    for (int step = 0; step < 60; step++) {
        if (!strcmp(kind, "leak")) {
            for (int i = 0; i < 50; i++) {
                struct order *order = order_make(i);
                sum += order->name[6];
                if (i % 5 < 3)
                    order_free(order);
            }
        } else if (!strcmp(kind, "copies")) {
            for (int i = 0; i < 400; i++) {
                struct order *copy = order_make(i);
                sum += copy->lines[5];
                order_free(copy);
            }
        } else if (!strcmp(kind, "rest") && step == 10) {
            for (int i = 0; i < 30000; i++)
                nodes[i] = node_new(i);
            for (int i = 0; i < 30000; i++)
                if (i % 50)
                    free(nodes[i]);
        } else if (strcmp(kind, "rest")) {
            int arrive = !strcmp(kind, "limited") ? 20 : 50;
            int served = strcmp(kind, "history") ? 20 : 0;
            if (!strcmp(kind, "steps")) {
                arrive = step < 20 ? 60 : 0;
                served = step < 20 ? 0 : 30;
            }
            for (int i = 0; i < arrive; i++)
                receive(i);
            for (int i = 0; i < served; i++)
                serve();
        }
        nanosleep(&pause, NULL);
    }
    while (serve()) {
    }
    if (!strcmp(kind, "rest"))
        for (int i = 0; i < 30000; i += 50)
            free(nodes[i]);
    free(table);
    fprintf(stderr, "%ld\n", sum);
    return 0;
}
