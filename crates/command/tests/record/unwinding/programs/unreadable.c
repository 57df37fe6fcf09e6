/* Stacks and modules that are partly unreadable, from the start or later. Where a
 * coroutine's stack ends with its mapping, its last words are whatever was there.
 *
 * unreadable CASE [LIBRARY]: ROUNDS allocations from `allocate`, called by BODY;
 * prints `ROUNDS BODY`.
 * unreadable random SEED ROUNDS: see random_stacks. */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "truth.h"

enum { PAGE = 4096, STACK = 16 * PAGE, BEHIND = 4 * PAGE, ROUNDS = 20 };

/* call_on(stack, function, argument): runs `function(argument)` with the word at
 * `stack`, whatever that is, as its return address; call_above runs a function in
 * assembler so, which calls `function(argument)`. `leave` comes back. */
void call_on(void *stack, void (*function)(long), long argument);
void call_above(void *stack, void (*function)(long), long argument);
void leave(void) __attribute__((noreturn));
__asm__(".pushsection .text\n"
        ".type call_above, @function\n"
        "call_above: .cfi_startproc\n"
        "mov %rsi, %rax\n"
        "lea assembler_body(%rip), %rsi\n"
        ".cfi_endproc\n"
        ".size call_above, .-call_above\n"
        ".type call_on, @function\n"
        "call_on: .cfi_startproc\n"
        "push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
        "mov %rsp, left_stack(%rip)\n"
        "mov %rdi, %rsp\n"
        "mov %rdx, %rdi\n"
        "jmp *%rsi\n"
        ".cfi_endproc\n"
        ".size call_on, .-call_on\n"
        ".type assembler_body, @function\n"
        "assembler_body: .cfi_startproc\n"
        "call *%rax\n"
        "nop\n"
        ".cfi_endproc\n"
        ".size assembler_body, .-assembler_body\n"
        ".type leave, @function\n"
        "leave: .cfi_startproc\n"
        "mov left_stack(%rip), %rsp\n"
        "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size leave, .-leave\n"
        ".local left_stack\n"
        ".comm left_stack, 8, 8\n"
        ".popsection\n");

static char *map(size_t bytes) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *memory = mmap(0, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    return memory;
}

/* A return address in a function whose frame has more than two pages: where it
 * is the last word of a stack, the next one to read lies far beyond. */
static void *in_a_large_frame;

ALONE static void note_return_address(void) {
    in_a_large_frame = __builtin_return_address(0);
}

ALONE static void large_frame(void) {
    volatile char room[2 * PAGE];
    room[0] = 0;
    note_return_address();
    room[1] = 0;
}

ALONE static void body(long bytes) {
    for (int i = 0; i < ROUNDS; i++)
        allocate(bytes);
    leave();
}

/* The last word of a mapping is the function's return address; behind it is
 * memory that may not be read. */
ALONE static void last_word(void) {
    char *stack = map(STACK + BEHIND);
    mprotect(stack + STACK, BEHIND, PROT_NONE);
    void **last = (void **)(stack + STACK) - 1;
    *last = in_a_large_frame;
    call_on(last, body, 10);
}

/* As before, with nothing mapped behind it. */
ALONE static void last_word_of_all(void) {
    char *stack = map(STACK + BEHIND);
    munmap(stack + STACK, BEHIND);
    void **last = (void **)(stack + STACK) - 1;
    *last = in_a_large_frame;
    call_on(last, body, 10);
}

/* There is no word for the return address. */
ALONE static void no_word(void) {
    char *stack = map(STACK + BEHIND);
    mprotect(stack + STACK, BEHIND, PROT_NONE);
    call_above(stack + STACK, body, 11);
}

/* Above is another coroutine's stack, which is unmapped meanwhile; walks before that
 * went on into it. */
static char *neighbour;

ALONE static void outliving_body(long bytes) {
    for (int i = 0; i < ROUNDS; i++) {
        allocate(bytes);
        if (i == ROUNDS / 2 - 1)
            munmap(neighbour, STACK);
    }
    leave();
}

ALONE static void neighbour_goes(void) {
    char *stacks = map(2 * STACK);
    neighbour = stacks + STACK;
    call_above(neighbour, outliving_body, 12);
}

/* As before, and the words of the other stack lead on, frame by frame. */
ALONE static void neighbour_with_frames_goes(void) {
    char *stacks = map(2 * STACK);
    neighbour = stacks + STACK;
    for (void **word = (void **)neighbour; word < (void **)(neighbour + STACK); word++)
        *word = in_a_large_frame;
    call_above(neighbour, outliving_body, 13);
}

/* A thread whose stack is memory of the program without a guard page, with a
 * coroutine's stack next to it. */
static void *in_thread(void *run) {
    ((void (*)(void))run)();
    return 0;
}

ALONE static void on_a_thread(void (*run)(void)) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, map(64 * PAGE), 64 * PAGE);
    pthread_t thread;
    if (pthread_create(&thread, &attributes, in_thread, run) != 0)
        abort();
    pthread_join(thread, 0);
}

ALONE static void in_a_thread(void) { on_a_thread(last_word); }

/* A stack is unmapped, and one that ends lower is mapped at its address: the inner
 * frames are where they were, and those outside of them are gone. */
ALONE static void half_body(long bytes) {
    for (int i = 0; i < ROUNDS / 2; i++)
        allocate(bytes);
    leave();
}

ALONE static void shorter_stack(void) {
    char *stack = map(2 * STACK);
    for (void **word = (void **)(stack + STACK); word < (void **)(stack + 2 * STACK); word++)
        *word = in_a_large_frame;
    call_on(stack + STACK - 8, half_body, 14);
    munmap(stack, 2 * STACK);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    if (mmap(stack, STACK, PROT_READ | PROT_WRITE, flags, -1, 0) != stack)
        abort();
    *((void **)(stack + STACK) - 1) = in_a_large_frame;
    call_on(stack + STACK - 8, half_body, 14);
}

/* A library whose tables cannot be read. */
typedef void (*Calls)(void (*)(void));

static int find_tables(struct dl_phdr_info *info, size_t size, void *found) {
    (void)size;
    if (strstr(info->dlpi_name, "plugin") == 0)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME) {
            ((uintptr_t *)found)[0] = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            ((uintptr_t *)found)[1] = info->dlpi_phdr[i].p_offset;
        }
    return 1;
}

ALONE static void called_back(void) {
    allocate(15);
}

ALONE static void protected_tables(const char *path) {
    Calls call_back = dlsym(dlopen(path, RTLD_NOW), "call_back");
    uintptr_t tables[2] = {0, 0};
    dl_iterate_phdr(find_tables, tables);
    char *page = (char *)(tables[0] & -PAGE);
    if (mprotect(page, PAGE, PROT_NONE) != 0)
        abort();
    for (int i = 0; i < ROUNDS; i++)
        call_back(called_back);
    mprotect(page, PAGE, PROT_READ);
}

/* The library's first page, which has its headers, cannot be read. */
ALONE static void protected_headers(const char *path) {
    Calls call_back = dlsym(dlopen(path, RTLD_NOW), "call_back");
    Dl_info library;
    dladdr((void *)call_back, &library);
    if (mprotect(library.dli_fbase, PAGE, PROT_NONE) != 0)
        abort();
    for (int i = 0; i < ROUNDS; i++)
        call_back(called_back);
    mprotect(library.dli_fbase, PAGE, PROT_READ);
}

/* The library's file is cut off behind its code. */
ALONE static void cut_off(const char *path) {
    char copy[] = "plugin-XXXXXX";
    int from = open(path, O_RDONLY), to = mkstemp(copy);
    char block[PAGE];
    for (ssize_t bytes; (bytes = read(from, block, sizeof block)) > 0;)
        if (write(to, block, bytes) != bytes)
            abort();
    char name[64];
    snprintf(name, sizeof name, "./%s", copy);
    Calls call_back = dlsym(dlopen(name, RTLD_NOW), "call_back");
    uintptr_t tables[2] = {0, 0};
    dl_iterate_phdr(find_tables, tables);
    if (ftruncate(to, tables[1] & -PAGE) != 0)
        abort();
    for (int i = 0; i < ROUNDS; i++)
        call_back(called_back);
    unlink(copy);
    /* Nothing that needs the library's own tables must run now. */
    printf("%d called_back\n", ROUNDS);
    fflush(stdout);
    _exit(0);
}

/* Random words on random stacks: malloc and free are called by a caller with any
 * stack pointer, any rbp and rbx, and one of a few kinds of unwind information. Most
 * words let a walk go on: addresses of code, and addresses on the stacks. Before,
 * between and after the calls pages become unreadable, or readable again. Nothing ever
 * returns through these words. */
enum { AREA_PAGES = 64, AREAS = 4, CODES = 4096 };

static char *areas[AREAS];
static char is_hidden[AREAS][AREA_PAGES];
static uintptr_t codes[CODES];
static int code_count;
static uint64_t state;

static uint64_t random_word(void) {
    /* xorshift64* (Vigna). */
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return state * 0x2545f4914f6cdd1d;
}

static uint64_t below(uint64_t bound) {
    return random_word() % bound;
}

/* A caller that switches to `stack`, sets the registers, calls malloc or free, and
 * returns by the stack pointer that it saved in random_left. */
#define CALLER(name, information)                                                           \
    void *name(void *stack, uintptr_t rbp, uintptr_t rbx, void *block);                     \
    __asm__(".pushsection .text\n.p2align 4\n.type " #name ", @function\n" #name ":\n"      \
            "push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"            \
            "mov %rsp, random_left(%rip)\n"                                                 \
            "mov %rdi, %rsp; mov %rsi, %rbp; mov %rdx, %rbx; mov %rcx, %rdi\n"              \
            ".cfi_startproc\n" information "\n"                                             \
            "test %rdi, %rdi\n"                                                             \
            "jnz 1f\n"                                                                      \
            "mov $24, %edi\n"                                                               \
            "call *random_malloc(%rip)\n"                                                   \
            "jmp 2f\n"                                                                      \
            "1: call *random_free(%rip)\n"                                                  \
            "2: nop\n"                                                                      \
            ".cfi_endproc\n"                                                                \
            "mov random_left(%rip), %rsp\n"                                                 \
            "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"                  \
            "ret\n.size " #name ", .-" #name "\n.popsection\n")

uintptr_t random_left;
void *(*random_malloc)(size_t) = malloc;
void (*random_free)(void *) = free;

CALLER(by_rsp, ".cfi_def_cfa rsp, 16");
CALLER(by_rsp_with_rbp, ".cfi_def_cfa rsp, 64\n.cfi_offset rbp, -24");
CALLER(by_rsp_far, ".cfi_def_cfa rsp, 20000\n.cfi_offset rbp, -8192");
CALLER(by_rsp_rbp_below, ".cfi_def_cfa rsp, 8\n.cfi_offset rbp, -4096");
CALLER(by_rbp, ".cfi_def_cfa rbp, 16\n.cfi_offset rbp, -16");
CALLER(by_rbp_far, ".cfi_def_cfa rbp, 16\n.cfi_offset rbp, -4096");
CALLER(by_rbx, ".cfi_def_cfa rbx, 16\n.cfi_offset rbp, -16");
/* DW_CFA_def_cfa_expression: breg6 -8, deref; DW_CFA_expression rbp: breg6 0. */
CALLER(by_realigned, ".cfi_escape 0x0f, 3, 0x76, 0x78, 0x06\n.cfi_escape 0x10, 6, 2, 0x76, 0");
/* As above, from rbx: an expression that is evaluated. */
CALLER(by_expression, ".cfi_escape 0x0f, 3, 0x73, 0x10, 0x06\n.cfi_escape 0x10, 6, 2, 0x73, 0");
CALLER(by_signal, ".cfi_signal_frame\n.cfi_def_cfa rsp, 8");
CALLER(by_nothing, ".cfi_undefined rip");

typedef void *(*Caller)(void *, uintptr_t, uintptr_t, void *);
static const Caller callers[] = {
    by_rsp, by_rsp_with_rbp, by_rsp_far,    by_rsp_rbp_below, by_rbp,    by_rbp_far,
    by_rbx, by_realigned,    by_expression, by_signal,        by_nothing};

static int note_code(struct dl_phdr_info *info, size_t size, void *unused) {
    (void)size, (void)unused;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_LOAD || !(header->p_flags & PF_X))
            continue;
        for (int n = 0; n < 300 && code_count < CODES; n++)
            codes[code_count++] = info->dlpi_addr + header->p_vaddr + below(header->p_memsz);
    }
    return 0;
}

/* Where the C library has signal handlers return to. */
static uintptr_t signal_return(void) {
    struct {
        void *handler;
        unsigned long flags;
        uintptr_t restorer;
        uint64_t mask;
    } action;
    signal(SIGUSR2, SIG_IGN);
    syscall(SYS_rt_sigaction, SIGUSR2, 0, &action, 8);
    return action.restorer;
}

static uintptr_t random_address(void) {
    return (uintptr_t)areas[below(AREAS)] + below(AREA_PAGES * PAGE) / 8 * 8;
}

/* The last word of a page, or nearly. */
static uintptr_t random_edge(void) {
    return (random_address() & -PAGE) + PAGE - 8 * below(4);
}

static uint64_t any_word(uintptr_t own_stack) {
    switch (below(16)) {
    case 0: return 0;
    case 1: return random_word();
    case 2: return random_word() & 0x7fffffffffff;
    case 3: return below(1 << 20);
    case 4: return -below(1 << 20);
    case 5: return own_stack + 8 * below(512);
    case 6: return signal_return();
    case 7: return random_edge();
    case 8: return random_address() + below(8);
    case 9: return random_address();
    default: return codes[below(code_count)];
    }
}

static void hide(int area, int page, int hidden) {
    if (is_hidden[area][page] == hidden)
        return;
    char *at = areas[area] + page * PAGE;
    if (mprotect(at, PAGE, hidden ? PROT_NONE : PROT_READ | PROT_WRITE) != 0)
        abort();
    is_hidden[area][page] = hidden;
}

/* Pages below `stack` that stay readable: enough for a call. */
enum { BELOW = 8 };

static void random_stacks(uint64_t seed, long rounds) {
    char here;
    long calls = 0;
    state = seed * 2 + 1;
    for (int i = 0; i < AREAS; i++)
        areas[i] = map(AREA_PAGES * PAGE);
    dl_iterate_phdr(note_code, 0);
    for (long round = 0; round < rounds; round++) {
        int area = below(AREAS), page = BELOW + below(AREA_PAGES - BELOW);
        for (int i = page - BELOW; i <= page; i++)
            hide(area, i, 0);
        for (int i = page + 1; i < page + 4 && i < AREA_PAGES; i++)
            hide(area, i, below(3) == 0);
        char *last = areas[area] + (page + 1) * PAGE;
        int words = below(4) == 0 ? 512 : below(40);
        for (int i = 1; i <= words; i++)
            ((uint64_t *)last)[-i] = any_word((uintptr_t)&here);
        void *stack = last - 16 * (below(2) ? below(4) : below(256));
        uintptr_t rbp = below(2) ? (uintptr_t)stack + 8 * below(64) : any_word((uintptr_t)&here);
        uintptr_t rbx = below(2) ? (uintptr_t)stack + 8 * below(64) : any_word((uintptr_t)&here);
        Caller caller = callers[below(sizeof callers / sizeof *callers)];
        for (int again = below(3); again >= 0; again--) {
            void *block = caller(stack, rbp, rbx, 0);
            if (below(2) && page + 1 < AREA_PAGES)
                hide(area, page + 1, below(2));
            caller(stack, rbp, rbx, block);
            calls++;
        }
    }
    printf("%ld\n", calls);
}

int main(int count, char **arguments) {
    const char *name = arguments[1];
    large_frame();
    if (strcmp(name, "random") == 0) {
        random_stacks(strtoull(arguments[2], 0, 10), atol(arguments[3]));
        return 0;
    }
    struct {
        const char *name;
        void (*run)(const char *);
        const char *body;
    } cases[] = {
        {"last_word", (void *)last_word, "body"},
        {"last_word_of_all", (void *)last_word_of_all, "body"},
        {"no_word", (void *)no_word, "body"},
        {"neighbour_goes", (void *)neighbour_goes, "outliving_body"},
        {"neighbour_with_frames_goes", (void *)neighbour_with_frames_goes, "outliving_body"},
        {"in_a_thread", (void *)in_a_thread, "body"},
        {"shorter_stack", (void *)shorter_stack, "half_body"},
        {"protected_tables", protected_tables, "called_back"},
        {"protected_headers", protected_headers, "called_back"},
        {"cut_off", cut_off, "called_back"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(name, cases[i].name) == 0) {
            cases[i].run(arguments[2]);
            printf("%d %s\n", ROUNDS, cases[i].body);
            return 0;
        }
    return 1;
}
