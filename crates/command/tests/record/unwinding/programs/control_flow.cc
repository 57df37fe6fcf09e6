// Ways in which control leaves a frame, or reaches one, other than by a call
// and a return. `control_flow CASE`; the truth is printed, see truth.h.
#include "truth.h"

#include <csetjmp>
#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#include <ucontext.h>

// Exceptions: THROWS times down 31 frames and back in one step.
constexpr int THROWS = 100, DEPTH = 30;

ALONE static void throwing(int depth) {
    allocate(depth + 1);
    if (depth == 0)
        throw 7;
    throwing(depth - 1);
    NO_TAIL_CALL;
}

struct Guard {
    ALONE ~Guard() { allocate(5); }
};

ALONE static void guarding() {
    Guard guard;
    throwing(DEPTH);
    NO_TAIL_CALL;
}

ALONE static void exceptions() {
    for (int i = 0; i < THROWS; i++) {
        try {
            guarding();
        } catch (int) {
            allocate(3);
        }
    }
    // The frame at depth d is the (DEPTH - d + 1)th of its kind.
    for (int depth = 0; depth <= DEPTH; depth++)
        EXPECT(THROWS, THROWS * (depth + 1), "allocate throwing*%d guarding exceptions main _start",
               DEPTH - depth + 1);
    // The exception itself: the C++ runtime's header and an int.
    EXPECT_ANY_SIZE(THROWS, "throwing*%d guarding exceptions main _start", DEPTH + 1);
    // The destructor runs on the way, when the frames inside of it are gone.
    EXPECT(THROWS, THROWS * 5, "allocate Guard::~Guard guarding exceptions main _start");
    EXPECT(THROWS, THROWS * 3, "allocate exceptions main _start");
}

// longjmp out of 26 frames.
constexpr int JUMPS = 200, JUMP_DEPTH = 25;
static jmp_buf landing;

ALONE static void jumping(int depth) {
    allocate(depth + 1);
    if (depth == 0)
        longjmp(landing, 1);
    jumping(depth - 1);
    NO_TAIL_CALL;
}

ALONE static void long_jumps() {
    for (volatile int i = 0; i < JUMPS; i++) {
        if (setjmp(landing) == 0)
            jumping(JUMP_DEPTH);
        allocate(3);
    }
    for (int depth = 0; depth <= JUMP_DEPTH; depth++)
        EXPECT(JUMPS, JUMPS * (depth + 1), "allocate jumping*%d long_jumps main _start",
               JUMP_DEPTH - depth + 1);
    EXPECT(JUMPS, JUMPS * 3, "allocate long_jumps main _start");
}

static char *new_stack(size_t bytes) {
    void *area = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED)
        abort();
    return static_cast<char *>(area);
}

constexpr size_t STACK = 64 << 10;
constexpr int COROUTINES = 3, SWITCHES = 50;

// makecontext: three coroutines that take turns, each at a depth of its own.
static ucontext_t scheduler, contexts[COROUTINES];

ALONE static void deep_switch(int self, int depth) {
    if (depth > 0) {
        deep_switch(self, depth - 1);
    } else {
        allocate(30 + self);
        swapcontext(&contexts[self], &scheduler);
        allocate(40 + self);
    }
    NO_TAIL_CALL;
}

ALONE static void context_body(int self) {
    for (int i = 0; i < SWITCHES; i++)
        deep_switch(self, self);
}

ALONE static void made_contexts() {
    for (int i = 0; i < COROUTINES; i++) {
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = new_stack(STACK);
        contexts[i].uc_stack.ss_size = STACK;
        contexts[i].uc_link = &scheduler;
        makecontext(&contexts[i], reinterpret_cast<void (*)()>(context_body), 1, i);
    }
    // A coroutine needs one turn more than it switches, to return.
    for (int turn = 0; turn <= SWITCHES; turn++)
        for (int i = 0; i < COROUTINES; i++) {
            swapcontext(&scheduler, &contexts[i]);
            allocate(4);
        }
    for (int i = 0; i < COROUTINES; i++)
        EXPECT(2 * SWITCHES, SWITCHES * (70 + 2 * i), "allocate deep_switch*%d context_body",
               i + 1);
    EXPECT(COROUTINES * (SWITCHES + 1), 4 * COROUTINES * (SWITCHES + 1),
           "allocate made_contexts main _start");
}

// Hand-made: the switch is assembler without call frame information, and a
// coroutine's first frame returns to address 0.
extern "C" void switch_stacks(void **save, void *load);
__asm__(".text\n"
        ".type switch_stacks, @function\n"
        "switch_stacks:\n"
        "    push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n"
        "    ret\n"
        ".size switch_stacks, . - switch_stacks\n");

static void *main_stack, *coroutine_stacks[COROUTINES];
static int running;

ALONE static void fiber_leaf(int self) {
    allocate(50 + self);
    NO_TAIL_CALL;
}

ALONE static void fiber_body() {
    int self = running;
    for (;;) {
        fiber_leaf(self);
        switch_stacks(&coroutine_stacks[self], main_stack);
    }
}

ALONE static void assembler_coroutines() {
    for (int i = 0; i < COROUTINES; i++) {
        void **top = reinterpret_cast<void **>(new_stack(STACK) + STACK);
        *--top = nullptr; // where fiber_body would return to
        *--top = reinterpret_cast<void *>(fiber_body);
        for (int saved = 0; saved < 6; saved++)
            *--top = nullptr;
        coroutine_stacks[i] = top;
    }
    for (int turn = 0; turn < SWITCHES; turn++)
        for (running = 0; running < COROUTINES; running++) {
            switch_stacks(&main_stack, coroutine_stacks[running]);
            allocate(6);
        }
    // All three share one stack of return addresses: 50, 51 and 52 bytes.
    EXPECT(COROUTINES * SWITCHES, SWITCHES * (50 + 51 + 52), "allocate fiber_leaf fiber_body");
    EXPECT(COROUTINES * SWITCHES, 6 * COROUTINES * SWITCHES,
           "allocate assembler_coroutines main _start");
}

// Recursion, twice over: the second time nearly all frames are those cached from the
// first, except where the calls in the middle are others.
ALONE static void descending(int depth) {
    if (depth == 0)
        allocate(8);
    else
        descending(depth - 1);
    NO_TAIL_CALL;
}

ALONE static void detour(int depth) {
    descending(depth);
    NO_TAIL_CALL;
}

ALONE static void every_level(int depth) {
    allocate(9);
    if (depth > 0)
        every_level(depth - 1);
    allocate(9);
}

ALONE static void recursion() {
    constexpr int LEVELS = 3000;
    for (int i = 0; i < 3; i++) {
        descending(LEVELS);
        detour(LEVELS);
    }
    every_level(LEVELS);
    EXPECT(3, 24, "allocate descending*%d recursion main _start", LEVELS + 1);
    EXPECT(3, 24, "allocate descending*%d detour recursion main _start", LEVELS + 1);
    for (int level = 1; level <= LEVELS + 1; level++)
        EXPECT(2, 18, "allocate every_level*%d recursion main _start", level);
}

// Past the limit of 4,096 frames, and back below it. The outermost frames are
// cut off.
ALONE static void too_deep() {
    constexpr int LIMIT = 4096, LEVELS = 6000;
    for (int i = 0; i < 3; i++) {
        descending(LEVELS);
        allocate(7);
        descending(10);
    }
    every_level(LEVELS);
    EXPECT(3, 24, "allocate descending*%d", LIMIT - 1);
    EXPECT(3, 21, "allocate too_deep main _start");
    EXPECT(3, 24, "allocate descending*11 too_deep main _start");
    // Outside of `level` frames of every_level are too_deep, main, libc's two
    // functions that call main, and _start; inside of them is allocate.
    constexpr int OTHERS = 6;
    int whole = LIMIT - OTHERS;
    for (int level = 1; level <= whole; level++)
        EXPECT(2, 18, "allocate every_level*%d too_deep main _start", level);
    EXPECT(2, 18, "allocate every_level*%d too_deep main", whole + 1);
    EXPECT(2, 18, "allocate every_level*%d too_deep main", whole + 2);
    EXPECT(2, 18, "allocate every_level*%d too_deep main", whole + 3);
    EXPECT(2, 18, "allocate every_level*%d too_deep", whole + 4);
    long cut = LEVELS + 1 - (whole + 4);
    EXPECT(2 * cut, 18 * cut, "allocate every_level*%d", LIMIT - 1);
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    const struct {
        const char *name;
        void (*run)();
    } cases[] = {
        {"exceptions", exceptions},
        {"long_jumps", long_jumps},
        {"made_contexts", made_contexts},
        {"assembler_coroutines", assembler_coroutines},
        {"recursion", recursion},
        {"too_deep", too_deep},
    };
    for (auto &one : cases)
        if (strcmp(name, one.name) == 0 || strcmp(name, "all") == 0)
            one.run();
    NO_TAIL_CALL;
    return 0;
}
