// The address of each visitor is copied, with the helper that the other fields use.
// BLAME set_address
#include <stdlib.h>
#include <string.h>

struct visitor {
    char *name;
    char *agent;
    char *page;
    const char *address;
};

static void *checked(void *block) {
    if (!block)
        abort();
    return block;
}

__attribute__((noinline)) static void *xmalloc(size_t size) {
    return checked(malloc(size));
}

__attribute__((noinline)) static char *xstrdup(const char *text) {
    size_t size = strlen(text) + 1;
    return memcpy(xmalloc(size), text, size);
}

__attribute__((noinline)) static void set_name(struct visitor *visitor, const char *name) {
    visitor->name = xstrdup(name);
}

__attribute__((noinline)) static void set_agent(struct visitor *visitor, const char *agent) {
    visitor->agent = xstrdup(agent);
}

__attribute__((noinline)) static void set_page(struct visitor *visitor, const char *page) {
    visitor->page = xstrdup(page);
}

__attribute__((noinline)) static void set_address(struct visitor *visitor, const char *address) {
#ifndef AFTER
    visitor->address = address;
#else
    visitor->address = xstrdup(address); // MARK blame
#endif
}

int main(void) {
    for (int i = 0; i < 300; i++) {
        struct visitor *visitor = xmalloc(sizeof *visitor);
        set_name(visitor, "ada");
        set_agent(visitor, "difference/1.0");
        set_page(visitor, "/index");
        set_address(visitor, "192.0.2.7");
        free(visitor->name);
        free(visitor->agent);
        free(visitor->page);
#ifdef AFTER
        free((char *)visitor->address);
#endif
        free(visitor);
    }
    return 0;
}
