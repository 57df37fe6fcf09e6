/* Modules that are loaded and unloaded. `opening CASE PLUGIN…`; the truth is printed. */
#include "truth.h"

#include <dlfcn.h>
#include <iconv.h>
#include <link.h>
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>
#include <string.h>
#include <sys/socket.h>

typedef void (*entry)(size_t);

ALONE static void *open_plugin(const char *path) {
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL) {
        truth_say("%s\n", dlerror());
        abort();
    }
    return plugin;
}

ALONE static void close_plugin(void *plugin) {
    dlclose(plugin);
    NO_TAIL_CALL;
}

/* What the loader allocates for itself. */
static void expect_loader(void) {
    EXPECT_OTHERS("open_plugin");
    EXPECT_OTHERS("close_plugin");
}

/* Opens a plugin, calls it twice, closes it; returns its address. */
ALONE static void *turn(const char *path) {
    void *plugin = open_plugin(path);
    entry enter = (entry)dlsym(plugin, "enter");
    enter(81);
    enter(81);
    close_plugin(plugin);
    return (void *)enter;
}

/* ROUNDS times each of them, all at the same address in turn. */
#define ROUNDS 1000
ALONE static int same_address(char **plugins) {
    int count = 0;
    while (plugins[count])
        count++;
    void *address = turn(plugins[0]);
    for (int i = 1; i < ROUNDS * count; i++)
        if (turn(plugins[i % count]) != address)
            return 3;
    for (int i = 0; i < count; i++) {
        char name[64];
        /* …/plugin_a.so has the function plugin_a. */
        snprintf(name, sizeof name, "%s", strrchr(plugins[i], '/') + 1);
        *strchr(name, '.') = 0;
        EXPECT(2 * ROUNDS, 162 * ROUNDS, "%s enter turn same_address main _start", name);
    }
    return 0;
}

/* A plugin in C++ that brings the C++ runtime, which the program does not use. */
ALONE static int cxx_plugin(char **plugins) {
    enum { TIMES = 50 };
    for (int i = 0; i < TIMES; i++) {
        void *plugin = open_plugin(plugins[0]);
        ((entry)dlsym(plugin, "enter"))(10);
        close_plugin(plugin);
    }
    /* See cxx_plugin.cc: 10 longs at once, then one object of 24 bytes for
     * each exception, which has a size of its own too. */
    EXPECT_OTHERS("plugin::first_exception");
    EXPECT(TIMES, 80 * TIMES, "plugin::numbers enter cxx_plugin main _start");
    EXPECT(10 * TIMES, 240 * TIMES, "plugin::Thing::make plugin::failing enter cxx_plugin main _start");
    EXPECT_ANY_SIZE(10 * TIMES, "plugin::failing enter cxx_plugin main _start");
    return 0;
}

/* Libraries that the C library opens by itself, and closes. */
ALONE static void converting(const char *to) {
    iconv_t conversion = iconv_open(to, "UTF-8");
    if (conversion == (iconv_t)-1)
        return;
    char text[] = "text", out[64], *in = text, *o = out;
    size_t left = sizeof text, room = sizeof out;
    iconv(conversion, &in, &left, &o, &room);
    iconv_close(conversion);
}

ALONE static void naming(void) {
    struct addrinfo *addresses = NULL;
    getpwnam("root");
    if (getaddrinfo("localhost", "80", NULL, &addresses) == 0)
        freeaddrinfo(addresses);
}

ALONE static int library_modules(char **plugins) {
    static const char *const sets[] = {"ISO-8859-15", "KOI8-R", "CP1252", "UTF-16", "EUC-JP", "BIG5"};
    enum { TIMES = 100, SETS = sizeof sets / sizeof *sets };
    for (int i = 0; i < TIMES; i++)
        for (int set = 0; set < SETS; set++) {
            converting(sets[set]);
            allocate(83);
            turn(plugins[set % 2]);
        }
    for (int i = 0; i < 10; i++) {
        naming();
        allocate(83);
    }
    EXPECT_OTHERS("converting");
    EXPECT_OTHERS("naming");
    long all = TIMES * SETS;
    EXPECT(all + 10, 83 * (all + 10), "allocate library_modules main _start");
    EXPECT(all, 81 * all, "plugin_a enter turn library_modules main _start");
    EXPECT(all, 81 * all, "plugin_b enter turn library_modules main _start");
    return 0;
}

/* One thread opens and closes while another allocates. */
#define OPENINGS 500
static volatile int closing_is_over;
static long steadily;

ALONE static void deeper(int depth) {
    if (depth > 0)
        deeper(depth - 1);
    else
        allocate(87);
    NO_TAIL_CALL;
}

ALONE static void *steady(void *nothing) {
    while (!closing_is_over || steadily < 10000) {
        deeper(10);
        steadily++;
    }
    return nothing;
}

ALONE static int beside_a_thread(char **plugins) {
    pthread_t thread;
    pthread_create(&thread, NULL, steady, NULL);
    for (int i = 0; i < OPENINGS; i++)
        turn(plugins[i % 2]);
    closing_is_over = 1;
    pthread_join(thread, NULL);
    EXPECT_THREADS();
    EXPECT(steadily, 87 * steadily, "allocate deeper*11 steady");
    EXPECT(OPENINGS, 81 * OPENINGS, "plugin_a enter turn beside_a_thread main _start");
    EXPECT(OPENINGS, 81 * OPENINGS, "plugin_b enter turn beside_a_thread main _start");
    /* pthread_create's own memory for its thread's variables. */
    EXPECT_ANY_SIZE(1, "beside_a_thread main _start");
    return 0;
}

/* Two threads open, use and close one library, each for itself: it is unloaded
 * when neither has it, and often while the other is about to open it again. */
static const char *shared_plugin;

ALONE static void *taking_turns(void *nothing) {
    for (int i = 0; i < OPENINGS; i++)
        turn(shared_plugin);
    return nothing;
}

ALONE static int in_two_threads(char **plugins) {
    pthread_t thread;
    shared_plugin = plugins[0];
    pthread_create(&thread, NULL, taking_turns, NULL);
    taking_turns(NULL);
    pthread_join(thread, NULL);
    EXPECT_THREADS();
    EXPECT(2 * OPENINGS, 162 * OPENINGS, "plugin_a enter turn taking_turns");
    EXPECT(2 * OPENINGS, 162 * OPENINGS, "plugin_a enter turn taking_turns in_two_threads main _start");
    EXPECT_ANY_SIZE(1, "in_two_threads main _start");
    return 0;
}

/* A thread allocates below a library's function when the library is unloaded,
 * and never returns there. Frames further out cannot be found from then on: the
 * stack ends. */
static volatile int stage;
static void (*call_back)(void (*)(void));

static void reach(int next) {
    stage = next;
    while (stage == next)
        usleep(1000);
}

ALONE static void waiting(void) {
    for (int i = 0; i < 100; i++)
        allocate(89);
    reach(1);
    for (int i = 0; i < 100; i++)
        allocate(97);
    reach(3);
    for (;;)
        pause();
}

ALONE static void *beneath(void *nothing) {
    call_back(waiting);
    return nothing;
}

ALONE static int unloaded_beneath(char **plugins) {
    pthread_t thread;
    void *plugin = open_plugin(plugins[0]);
    *(void **)&call_back = dlsym(plugin, "call_back");
    pthread_create(&thread, NULL, beneath, NULL);
    while (stage != 1)
        usleep(1000);
    close_plugin(plugin);
    stage = 2;
    while (stage != 3)
        usleep(1000);
    EXPECT_THREADS();
    EXPECT(100, 8900, "allocate waiting call_back beneath");
    EXPECT(100, 9700, "allocate waiting");
    EXPECT_ANY_SIZE(1, "unloaded_beneath main _start");
    return 0;
}

int main(int argc, char **argv) {
    expect_loader();
    const struct {
        const char *name;
        int (*run)(char **);
    } cases[] = {
        {"same_address", same_address},
        {"cxx_plugin", cxx_plugin},
        {"library_modules", library_modules},
        {"beside_a_thread", beside_a_thread},
        {"in_two_threads", in_two_threads},
        {"unloaded_beneath", unloaded_beneath},
    };
    for (unsigned i = 0; argc > 2 && i < sizeof cases / sizeof *cases; i++)
        if (strcmp(argv[1], cases[i].name) == 0)
            return cases[i].run(argv + 2);
    return 98;
}
