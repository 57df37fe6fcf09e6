// The queue allocates a node for each message, where it linked the messages themselves.
// BLAME put
#include <stdlib.h>

struct message {
    int id;
    struct message *next;
};

#ifndef AFTER
typedef struct message node;
#else
typedef struct node {
    struct message *message;
    struct node *next;
} node;
#endif

static node *first;

static void put(struct message *message) {
#ifndef AFTER
    node *node = message;
#else
    node *node = malloc(sizeof *node); // MARK blame
    node->message = message;
#endif
    node->next = first;
    first = node;
}

static int take(void) {
    node *taken = first;
    first = taken->next;
#ifndef AFTER
    return taken->id;
#else
    int id = taken->message->id;
    free(taken);
    return id;
#endif
}

int main(void) {
    static struct message messages[50];
    int sum = 0;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 50; i++) {
            messages[i].id = i;
            put(&messages[i]);
        }
        while (first)
            sum += take();
    }
    return sum == 0;
}
