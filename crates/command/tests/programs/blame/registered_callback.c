// A second observer was registered, which keeps a record of each change.
// BLAME keep_history
#include <stdlib.h>

struct change {
    int line, column;
    struct change *older;
};

typedef void observer(int line, int column);

static observer *observers[4];
static int registered;
static long repainted;
static struct change *history;

static void observe(observer *observer) {
    observers[registered++] = observer;
}

static void repaint(int line, int column) {
    repainted += line + column;
}

static void keep_history(int line, int column) {
    struct change *change = malloc(sizeof *change); // MARK blame
    *change = (struct change){line, column, history};
    history = change;
}

__attribute__((noinline)) static void changed(int line, int column) {
    for (int i = 0; i < registered; i++)
        observers[i](line, column);
}

int main(void) {
#ifndef AFTER
    volatile int keeps_history = 0;
#else
    volatile int keeps_history = 1;
#endif
    observe(repaint);
    if (keeps_history)
        observe(keep_history);
    for (int i = 0; i < 600; i++)
        changed(i / 80, i % 80);
    for (struct change *older; history; history = older) {
        older = history->older;
        free(history);
    }
    return repainted == 0;
}
