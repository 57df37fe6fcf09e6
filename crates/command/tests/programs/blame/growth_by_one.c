// The array grows by one element, where it doubled.
// BLAME append
#include <stdlib.h>

struct list {
    int *items;
    size_t used, room;
};

static void append(struct list *list, int item) {
    if (list->used == list->room) {
#ifndef AFTER
        list->room = list->room ? 2 * list->room : 8;
#else
        list->room = list->room + 1;
#endif
        list->items = realloc(list->items, list->room * sizeof *list->items); // MARK blame
    }
    list->items[list->used++] = item;
}

int main(void) {
    struct list list = {0};
    for (int i = 0; i < 2000; i++)
        append(&list, i);
    int last = list.items[list.used - 1];
    free(list.items);
    return last == 0;
}
