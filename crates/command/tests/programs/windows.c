/* Windows, each with a number of allocations that is known: `windows CASE`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THIS_THREAD = 1, QUIET = 2, DESCRIPTORS = 4 };

static uint32_t (*abi)(void);
static uint32_t (*recording)(void);
static uint64_t (*window_open)(const char *, size_t, uint64_t, uint32_t);
static void (*window_close)(uint64_t, uint32_t);
static uint32_t (*quiet)(uint32_t, uint32_t);
static void (*opt_out)(uint32_t);

static __thread void *volatile sink;

static uint64_t begin(const char *name, uint64_t iterations, uint32_t flags) {
    return window_open(name, strlen(name), iterations, flags);
}

/* Makes `count` blocks of `bytes` bytes, which are never freed. */
__attribute__((noinline)) static void keep(int count, size_t bytes) {
    for (int i = 0; i < count; i++)
        sink = malloc(bytes);
}

/* The same, freed at once. */
__attribute__((noinline)) static void churn(int count, size_t bytes) {
    for (int i = 0; i < count; i++) {
        void *volatile block = malloc(bytes); /* no other thread's or handler's */
        free(block);
    }
}

static void nested(void) {
    uint64_t outer = begin("outer", 10, 0);
    keep(3, 100);
    uint64_t inner = begin("inner", 0, 0);
    churn(5, 1000);
    keep(2, 10);
    window_close(inner, 0);
    keep(4, 1);
    window_close(outer, 0);
    keep(50, 7);
}

static void overlapping(void) {
    uint64_t a = begin("a", 0, 0);
    keep(1, 8);
    uint64_t b = begin("b", 0, 0);
    keep(2, 8);
    window_close(a, 0);
    keep(4, 8);
    window_close(b, 0);
    keep(8, 8);
}

/* The round that the worker may begin, and the one that it has done; both count up. */
static atomic_int requested, done;

static void wait_for(atomic_int *number, int value) {
    int now;
    while ((now = atomic_load_explicit(number, memory_order_acquire)) < value)
        syscall(SYS_futex, number, FUTEX_WAIT_PRIVATE, now, NULL, NULL, 0);
}

static void set(atomic_int *number, int value) {
    atomic_store_explicit(number, value, memory_order_release);
    syscall(SYS_futex, number, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *worker(void *rounds) {
    for (int i = 1; i <= *(int *)rounds; i++) {
        wait_for(&requested, i);
        churn(i % 2 ? 3 : 2, 64);
        set(&done, i);
    }
    return NULL;
}

static void have_it_done(int round) {
    set(&requested, round);
    wait_for(&done, round);
}

/* Three allocations of another thread in each window, two between windows. */
static void signalled(int windows) {
    int rounds = 2 * windows;
    pthread_t other;
    pthread_create(&other, NULL, worker, &rounds);
    for (int i = 0; i < windows; i++) {
        uint64_t window = begin("signalled", 0, 0);
        have_it_done(2 * i + 1);
        window_close(window, 0);
        have_it_done(2 * i + 2);
    }
    pthread_join(other, NULL);
}

static void one_thread(void) {
    int rounds = 1;
    pthread_t other;
    pthread_create(&other, NULL, worker, &rounds);
    uint64_t all = begin("all", 0, 0);
    uint64_t mine = begin("mine", 0, THIS_THREAD);
    keep(5, 16);
    have_it_done(1);
    window_close(mine, 0);
    window_close(all, 0);
    pthread_join(other, NULL);
}

static pthread_mutex_t not_yet = PTHREAD_MUTEX_INITIALIZER;

static void *short_lived(void *unused) {
    (void)unused;
    pthread_mutex_lock(&not_yet);
    pthread_mutex_unlock(&not_yet);
    churn(5, 64);
    keep(1, 8);
    return NULL;
}

/* Threads that begin before the window and are joined in it; then others that
 * begin in it, one after the other, each once the last has ended. */
static void joined(void) {
    pthread_t threads[4];
    pthread_mutex_lock(&not_yet);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, short_lived, NULL);
    uint64_t window = begin("joined", 0, 0);
    pthread_mutex_unlock(&not_yet);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    window_close(window, 0);
    uint64_t later = begin("begun", 0, 0);
    for (int i = 0; i < 40; i++) {
        pthread_create(&threads[0], NULL, short_lived, NULL);
        pthread_join(threads[0], NULL);
    }
    window_close(later, 0);
}

/* Opted out, it allocates while windows open and close. */
static void *outsider(void *unused) {
    (void)unused;
    opt_out(1);
    set(&done, 1);
    while (!atomic_load(&requested))
        churn(1, 8);
    opt_out(0);
    return NULL;
}

static void beside(void) {
    pthread_t other;
    pthread_create(&other, NULL, outsider, NULL);
    wait_for(&done, 1);
    for (int i = 0; i < 200; i++) {
        uint64_t window = begin("beside", 0, 0);
        churn(100, 8);
        window_close(window, 0);
    }
    set(&requested, 1);
    pthread_join(other, NULL);
}

static uint64_t handed_over;

static void *closes(void *unused) {
    (void)unused;
    keep(2, 8);
    window_close(handed_over, 0);
    return NULL;
}

static void closed_elsewhere(void) {
    pthread_t other;
    handed_over = begin("mine alone", 0, THIS_THREAD);
    keep(3, 8);
    pthread_create(&other, NULL, closes, NULL);
    pthread_join(other, NULL);
}

static void *windows_of_its_own(void *name) {
    for (int i = 0; i < 500; i++) {
        uint64_t window = begin(name, 0, THIS_THREAD);
        churn(3, 24);
        window_close(window, 0);
        churn(1, 24);
    }
    return NULL;
}

static void crowd(void) {
    static char *names[] = {"one", "two", "three", "four"};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, windows_of_its_own, names[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void killed(void) {
    uint64_t closed = begin("closed", 0, 0);
    keep(2, 8);
    window_close(closed, 0);
    begin("open", 0, 0);
    keep(4, 8);
    raise(SIGKILL);
}

static void forked(void) {
    uint64_t parents = begin("parent's", 0, 0);
    keep(2, 8);
    pid_t child = fork();
    if (child == 0) {
        window_close(parents, 0);
        keep(16, 8);
        uint64_t childs = begin("child's", 0, 0);
        window_close(parents, 0);
        keep(3, 8);
        window_close(childs, 0);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    keep(1, 8);
    window_close(parents, 0);
}

static void executed(char *self) {
    begin("before", 0, 0);
    keep(2, 8);
    execl(self, self, "after", NULL);
}

static void after(void) {
    uint64_t window = begin("after", 0, 0);
    keep(1, 8);
    window_close(window, 0);
}

static void opted_out(void) {
    uint64_t window = begin("some", 0, 0);
    keep(1, 8);
    opt_out(1);
    keep(2, 8);
    opt_out(1);
    keep(4, 8);
    opt_out(0);
    keep(8, 8);
    opt_out(0);
    keep(16, 8);
    opt_out(0); /* one too many is nothing */
    keep(32, 8);
    window_close(window, 0);
}

static atomic_int enough;

static void *busy(void *milliseconds) {
    for (int left = *(int *)milliseconds; left != 0 && !enough; left--) {
        churn(1, 8);
        usleep(1000);
    }
    return NULL;
}

static void quieted(void) {
    int some = 100, endless = -1;
    pthread_t other;
    pthread_create(&other, NULL, busy, &some);
    uint64_t window = begin("quiet", 0, QUIET);
    keep(5, 8);
    window_close(window, 0);
    pthread_join(other, NULL);
    printf("%u\n", quiet(5, 10000));
    pthread_create(&other, NULL, busy, &endless);
    /* The other thread is never quiet for so long, unless the scheduler stops it. */
    printf("%u\n", quiet(60000, 100));
    enough = 1;
    pthread_join(other, NULL);
    fflush(stdout);
}

static void descriptors(void) {
    int before = open("/dev/null", O_RDONLY), ends[2];
    uint64_t window = begin("descriptors", 0, DESCRIPTORS);
    int gone = open("/dev/zero", O_RDONLY), other = dup(before);
    open("kept", O_WRONLY | O_CREAT, 0600);
    if (pipe(ends) != 0)
        abort();
    close(gone);
    close(before); /* `other` is open in its place */
    window_close(window, 0);
    uint64_t clean = begin("clean", 0, DESCRIPTORS);
    window_close(clean, 0);
    uint64_t unasked = begin("unasked", 0, 0);
    window_close(unasked, 0);
    (void)other;
}

static void misused(void) {
    uint64_t window = begin("twice", 0, 0);
    keep(1, 8);
    window_close(window, 0);
    keep(2, 8);
    window_close(window, 0);
    window_close(0, 0);
    window_close(UINT64_MAX, QUIET);
    window_close(window + 1000, 0);
    keep(4, 8);
}

static void named(void) {
    char name[300];
    for (int i = 0; i < 300; i += 2)
        memcpy(name + i, "\303\251", 2);
    window_close(window_open(name, 300, 0, 0), 0);
    window_close(window_open(NULL, 7, 0, 0), 0);
    window_close(window_open("\033[31m\n\377", 7, 0, 0), 0);
}

static volatile int handled;

static void handler(int signal) {
    (void)signal;
    uint64_t window = begin("handler", 0, THIS_THREAD);
    window_close(window, 0);
    handled++;
}

static void handler_that_allocates(int signal) {
    (void)signal;
    uint64_t window = begin("inside", 0, 0);
    keep(2, 8);
    window_close(window, 0);
}

static void interrupted(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGPROF, &action, NULL);
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    uint64_t window = begin("interrupted", 0, 0);
    setitimer(ITIMER_PROF, &often, NULL);
    churn(400000, 32);
    setitimer(ITIMER_PROF, &never, NULL);
    window_close(window, 0);
    action.sa_handler = handler_that_allocates;
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    printf("%d\n", handled);
    fflush(stdout);
}

/* Opens and closes a window while its ring is full and nobody reads it. */
static void full(void) {
    pid_t collector = atoi(getenv("ALLOTROPE_ARENA"));
    for (int end = 0; end < 2; end++) {
        static uint64_t window;
        pid_t child = fork();
        if (child == 0) {
            usleep(300000);
            kill(collector, SIGCONT);
            syscall(SYS_exit_group, 0);
        }
        kill(collector, SIGSTOP);
        churn(200000, 16);
        if (end == 0) {
            window = begin("full", 0, 0);
            printf("%s\n", window ? "opened" : "not opened");
            fflush(stdout);
        } else
            window_close(window, 0);
        waitpid(child, NULL, 0);
    }
}

int main(int argc, char **argv) {
    *(void **)&abi = dlsym(RTLD_DEFAULT, "allotrope_abi");
    *(void **)&recording = dlsym(RTLD_DEFAULT, "allotrope_recording");
    *(void **)&window_open = dlsym(RTLD_DEFAULT, "allotrope_window_open");
    *(void **)&window_close = dlsym(RTLD_DEFAULT, "allotrope_window_close");
    *(void **)&quiet = dlsym(RTLD_DEFAULT, "allotrope_quiet");
    *(void **)&opt_out = dlsym(RTLD_DEFAULT, "allotrope_opt_out");
    if (!abi || abi() != 1 || !recording || recording() == 0)
        return 9;
    const char *wanted = argc > 1 ? argv[1] : "";
    if (strcmp(wanted, "nested") == 0)
        nested();
    else if (strcmp(wanted, "overlapping") == 0)
        overlapping();
    else if (strcmp(wanted, "signalled") == 0)
        signalled(atoi(argv[2]));
    else if (strcmp(wanted, "one-thread") == 0)
        one_thread();
    else if (strcmp(wanted, "joined") == 0)
        joined();
    else if (strcmp(wanted, "beside") == 0)
        beside();
    else if (strcmp(wanted, "closed-elsewhere") == 0)
        closed_elsewhere();
    else if (strcmp(wanted, "crowd") == 0)
        crowd();
    else if (strcmp(wanted, "killed") == 0)
        killed();
    else if (strcmp(wanted, "forked") == 0)
        forked();
    else if (strcmp(wanted, "executed") == 0)
        executed(argv[0]);
    else if (strcmp(wanted, "after") == 0)
        after();
    else if (strcmp(wanted, "opted-out") == 0)
        opted_out();
    else if (strcmp(wanted, "quieted") == 0)
        quieted();
    else if (strcmp(wanted, "descriptors") == 0)
        descriptors();
    else if (strcmp(wanted, "misused") == 0)
        misused();
    else if (strcmp(wanted, "named") == 0)
        named();
    else if (strcmp(wanted, "interrupted") == 0)
        interrupted();
    else if (strcmp(wanted, "full") == 0)
        full();
    else
        return 8;
    return 0;
}
