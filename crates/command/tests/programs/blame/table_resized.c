// The table is made without the number of entries that is known, so that it is resized.
// BLAME resize
#include <stdlib.h>

struct table {
    unsigned *slots;
    size_t room, used;
};

__attribute__((noinline)) static void put(struct table *table, unsigned key);

__attribute__((noinline)) static void resize(struct table *table, size_t room) {
    struct table old = *table;
    table->slots = calloc(room, sizeof *table->slots); // MARK blame
    table->room = room;
    table->used = 0;
    for (size_t at = 0; at < old.room; at++)
        if (old.slots[at])
            put(table, old.slots[at]);
    free(old.slots);
}

static void put(struct table *table, unsigned key) {
    if (2 * table->used >= table->room)
        resize(table, table->room ? 2 * table->room : 4);
    size_t at = key * 2654435761u % table->room;
    while (table->slots[at])
        at = (at + 1) % table->room;
    table->slots[at] = key;
    table->used++;
}

int main(void) {
    size_t sum = 0;
    for (int round = 0; round < 60; round++) {
        struct table table = {0};
#ifndef AFTER
        resize(&table, 512);
#endif
        for (unsigned key = 1; key <= 200; key++)
            put(&table, key);
        sum += table.used;
        free(table.slots);
    }
    return sum == 0;
}
