// The builder starts empty, where it started with room for a usual page.
// BLAME builder_add
#include <stdlib.h>
#include <string.h>

struct builder {
    char *text;
    size_t length, room;
};

static void builder_start(struct builder *builder) {
    builder->length = 0;
#ifndef AFTER
    builder->room = 4096;
    builder->text = malloc(builder->room);
#else
    builder->room = 0;
    builder->text = NULL;
#endif
}

__attribute__((noinline)) static void builder_add(struct builder *builder, const char *text) {
    size_t length = strlen(text);
    while (builder->length + length + 1 > builder->room) {
        builder->room = builder->room ? 2 * builder->room : 16;
        builder->text = realloc(builder->text, builder->room); // MARK blame
    }
    memcpy(builder->text + builder->length, text, length + 1);
    builder->length += length;
}

int main(void) {
    size_t sum = 0;
    for (int page = 0; page < 80; page++) {
        struct builder builder;
        builder_start(&builder);
        for (int row = 0; row < 100; row++)
            builder_add(&builder, "<li>an item of the list</li>\n");
        sum += builder.length;
        free(builder.text);
    }
    return sum == 0;
}
