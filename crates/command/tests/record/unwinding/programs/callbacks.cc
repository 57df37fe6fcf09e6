// Functions of the program that others call: the C library, the loader, the
// kernel. `callbacks CASE`; the truth is printed, see truth.h.
#include "truth.h"

#include <csignal>
#include <cstdint>
#include <cstring>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

// Before main.
__attribute__((constructor)) ALONE static void constructing() {
    allocate(101);
    NO_TAIL_CALL;
}

// Below qsort. How often it compares depends on the C library.
static long comparisons;

ALONE static int comparing(const void *left, const void *right) {
    comparisons++;
    allocate(11);
    return *static_cast<const int *>(left) - *static_cast<const int *>(right);
}

ALONE static void sorting() {
    // Few enough that it sorts without memory from the heap.
    constexpr int COUNT = 200;
    int numbers[COUNT];
    for (int i = 0; i < COUNT; i++)
        numbers[i] = (i * 7919) % COUNT;
    for (int times = 0; times < 10; times++) {
        qsort(numbers, COUNT, sizeof *numbers, comparing);
        allocate(13);
    }
    EXPECT(comparisons, 11 * comparisons, "allocate comparing sorting main _start");
    EXPECT(10, 130, "allocate sorting main _start");
}

// Below dl_iterate_phdr, which holds the loader's lock.
static long objects;

ALONE static int visiting(dl_phdr_info *, size_t, void *) {
    objects++;
    allocate(17);
    return 0;
}

ALONE static void iterating() {
    for (int times = 0; times < 100; times++)
        dl_iterate_phdr(visiting, nullptr);
    EXPECT(objects, 17 * objects, "allocate visiting iterating main _start");
    NO_TAIL_CALL;
}

// After main.
ALONE static void leaving_program() {
    allocate(19);
    NO_TAIL_CALL;
}

ALONE static void registering() {
    for (int i = 0; i < 3; i++)
        atexit(leaving_program);
    EXPECT(3, 57, "allocate leaving_program _start");
}

// Handlers: on the interrupted stack, on an alternate one, and one that
// interrupts the other.
ALONE static void inner_handler(int) {
    allocate(23);
    NO_TAIL_CALL;
}

ALONE static void outer_handler(int) {
    allocate(29);
    raise(SIGUSR2);
    allocate(31);
}

static void handle(int signal, void (*handler)(int), int flags) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(signal, &action, nullptr);
}

ALONE static void raising() {
    raise(SIGUSR1);
    allocate(37);
}

// An alternate stack between pages that cannot be accessed.
static void use_alternate_stack(size_t bytes) {
    constexpr size_t PAGE = 4096;
    size_t whole = (bytes + PAGE - 1) / PAGE * PAGE;
    char *area = static_cast<char *>(mmap(nullptr, whole + 2 * PAGE, PROT_NONE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(area + PAGE, whole, PROT_READ | PROT_WRITE);
    stack_t alternate = {};
    // The unused rest of the last page is at the upper end.
    alternate.ss_sp = area + PAGE;
    alternate.ss_size = bytes;
    if (sigaltstack(&alternate, nullptr) != 0)
        abort();
}

ALONE static void signals() {
    constexpr int TIMES = 100;
    use_alternate_stack(64 << 10);
    // Both on the thread's stack, both on the alternate, and either first.
    for (int kind = 0; kind < 4; kind++) {
        handle(SIGUSR1, outer_handler, kind & 1 ? SA_ONSTACK : 0);
        handle(SIGUSR2, inner_handler, kind & 2 ? SA_ONSTACK : 0);
        for (int i = 0; i < TIMES; i++)
            raising();
    }
    long all = 4 * TIMES;
    EXPECT(all, all * 23, "allocate inner_handler outer_handler raising signals main _start");
    EXPECT(2 * all, all * (29 + 31), "allocate outer_handler raising signals main _start");
    EXPECT(all, all * 37, "allocate raising signals main _start");
}

// The smallest alternate stack that is enough for the handler itself: what the
// kernel puts there, and HANDLER_BYTES for the handler, malloc and free.
ALONE static void small_handler(int) {
    allocate(41);
    NO_TAIL_CALL;
}

ALONE static void small_alternate_stack() {
    constexpr int TIMES = 100;
    const char *more = getenv("HANDLER_BYTES");
    use_alternate_stack(sysconf(_SC_MINSIGSTKSZ) + (more ? atoi(more) : 1024));
    handle(SIGUSR1, small_handler, SA_ONSTACK);
    for (int i = 0; i < TIMES; i++)
        raising();
    EXPECT(TIMES, TIMES * 41, "allocate small_handler raising small_alternate_stack main _start");
    EXPECT(TIMES, TIMES * 37, "allocate raising small_alternate_stack main _start");
}

// Threads with the smallest stack that there is.
constexpr int THREADS = 8, LEVELS = 20, ROUNDS = 200;

ALONE static void level(int depth) {
    allocate(43);
    if (depth > 1)
        level(depth - 1);
    NO_TAIL_CALL;
}

ALONE static void *small_thread(void *) {
    for (int i = 0; i < ROUNDS; i++)
        level(LEVELS);
    return nullptr;
}

ALONE static void small_threads() {
    pthread_t threads[THREADS];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, 16 << 10) != 0)
        abort();
    for (auto &thread : threads)
        if (pthread_create(&thread, &attributes, small_thread, nullptr) != 0)
            abort();
    for (auto &thread : threads)
        pthread_join(thread, nullptr);
    EXPECT_THREADS();
    long each = THREADS * ROUNDS;
    for (int depth = 1; depth <= LEVELS; depth++)
        EXPECT(each, each * 43, "allocate level*%d small_thread", depth);
    // pthread_create's own memory for its thread's variables.
    EXPECT_ANY_SIZE(THREADS, "small_threads main _start");
}

// A timer that interrupts the program wherever it is, the recorder included.
// The handler does nothing if it interrupted the C library, which may be in the
// middle of malloc.
static uintptr_t library_start, library_end;
static volatile long ticks, spins;
constexpr long TICKS = 2000, MOST_SPINS = 2000000;

static int find_library(dl_phdr_info *info, size_t, void *) {
    if (!strstr(info->dlpi_name, "/libc.so"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD) {
            library_end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
            if (library_start == 0)
                library_start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        }
    return 1;
}

static void on_timer(int, siginfo_t *, void *context) {
    uintptr_t pc = static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_RIP];
    if (pc - library_start < library_end - library_start)
        return;
    ticks = ticks + 1;
    allocate(47);
}

ALONE static void spinning() {
    for (spins = 0; spins < MOST_SPINS && ticks < TICKS; spins = spins + 1)
        allocate(53);
}

ALONE static void timer() {
    dl_iterate_phdr(find_library, nullptr);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_timer;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGALRM, &action, nullptr);
    itimerval interval = {{0, 50}, {0, 50}};
    setitimer(ITIMER_REAL, &interval, nullptr);
    spinning();
    memset(&interval, 0, sizeof interval);
    setitimer(ITIMER_REAL, &interval, nullptr);
    EXPECT_UNDER(ticks, "on_timer");
    EXPECT(spins, spins * 53, "allocate spinning timer main _start");
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    const struct {
        const char *name;
        void (*run)();
    } cases[] = {
        {"before_main", [] {}},
        {"sorting", sorting},
        {"iterating", iterating},
        {"registering", registering},
        {"signals", signals},
        {"small_alternate_stack", small_alternate_stack},
        {"small_threads", small_threads},
        {"timer", timer},
    };
    EXPECT(1, 101, "allocate constructing _start");
    for (auto &one : cases)
        if (strcmp(name, one.name) == 0 || strcmp(name, "all") == 0)
            one.run();
    return 0;
}
