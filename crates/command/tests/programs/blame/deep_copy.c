// The copy of a route owns its name, which it shared with the original.
// BLAME route_copy
#include <stdlib.h>
#include <string.h>

struct route {
    const char *name;
    int hops[8];
};

static struct route *route_copy(const struct route *route) {
    struct route *copy = malloc(sizeof *copy);
    *copy = *route;
#ifdef AFTER
    copy->name = strdup(route->name); // MARK blame
#endif
    return copy;
}

static void route_free(struct route *route) {
#ifdef AFTER
    free((char *)route->name);
#endif
    free(route);
}

int main(void) {
    struct route route = {"from London to Ockham", {1, 2, 3}};
    int sum = 0;
    for (int i = 0; i < 450; i++) {
        struct route *copy = route_copy(&route);
        sum += copy->hops[i % 8];
        route_free(copy);
    }
    return sum == 0;
}
