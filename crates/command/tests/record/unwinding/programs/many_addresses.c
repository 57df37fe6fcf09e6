/* More return addresses than the unwinder has code ids for, each used twice: in
 * between, it forgets what it cached by code id. The truth is printed, see
 * truth.h. */
#include "truth.h"

/* Return addresses of each function. */
#define CALLS 1100
#define TIMES 2

#define QUOTE_(text) #text
#define QUOTE(text) QUOTE_(text)

/* A function that allocates CALLS times, each time from another address. */
#define FUNCTION(number)                                                                   \
    void calls_##number(void *(*allocate)(size_t), void (*release)(void *), int size);     \
    __asm__(".text\n"                                                                      \
            ".type calls_" #number ", @function\n"                                         \
            "calls_" #number ":\n"                                                         \
            "    .cfi_startproc\n"                                                         \
            "    push %rbx\n"                                                              \
            "    .cfi_def_cfa_offset 16\n"                                                 \
            "    .cfi_offset %rbx, -16\n"                                                  \
            "    push %rbp\n"                                                              \
            "    .cfi_def_cfa_offset 24\n"                                                 \
            "    .cfi_offset %rbp, -24\n"                                                  \
            "    push %r12\n"                                                              \
            "    .cfi_def_cfa_offset 32\n"                                                 \
            "    .cfi_offset %r12, -32\n"                                                  \
            "    mov %rdi, %rbx\n"                                                         \
            "    mov %rsi, %r12\n"                                                         \
            "    mov %edx, %ebp\n"                                                         \
            "    .rept " QUOTE(CALLS) "\n"                                                 \
            "    mov %ebp, %edi\n"                                                         \
            "    call *%rbx\n"                                                             \
            "    mov %rax, %rdi\n"                                                         \
            "    call *%r12\n"                                                             \
            "    .endr\n"                                                                  \
            "    pop %r12\n"                                                               \
            "    .cfi_def_cfa_offset 24\n"                                                 \
            "    pop %rbp\n"                                                               \
            "    .cfi_def_cfa_offset 16\n"                                                 \
            "    pop %rbx\n"                                                               \
            "    .cfi_def_cfa_offset 8\n"                                                  \
            "    ret\n"                                                                    \
            "    .cfi_endproc\n"                                                           \
            ".size calls_" #number ", . - calls_" #number "\n");

#define TEN(tens, use)                                                                     \
    use(tens##0) use(tens##1) use(tens##2) use(tens##3) use(tens##4) use(tens##5)          \
    use(tens##6) use(tens##7) use(tens##8) use(tens##9)
/* 50 of them: 55,000 return addresses. */
#define ALL(use)                                                                           \
    TEN(1, use) TEN(2, use) TEN(3, use) TEN(4, use) TEN(5, use)

ALL(FUNCTION)

typedef void (*Function)(void *(*)(size_t), void (*)(void *), int);

/* All are called from the same instruction, so only their own return addresses make
 * their stacks differ. */
ALONE static void many_addresses(void) {
#define NAME(number) calls_##number,
    static const Function functions[] = {ALL(NAME)};
#define SIZE(number) number,
    static const int sizes[] = {ALL(SIZE)};
    const int count = sizeof sizes / sizeof *sizes;
    for (int turn = 0; turn < TIMES * count; turn++) {
        functions[turn % count](malloc, free, sizes[turn % count]);
        allocate(5);
    }
#define TRUTH(number)                                                                      \
    EXPECT(TIMES * CALLS, TIMES * CALLS * number, "calls_" #number " many_addresses main _start");
    ALL(TRUTH)
    EXPECT(TIMES * count, 5 * TIMES * count, "allocate many_addresses main _start");
}

int main(void) {
    many_addresses();
    return 0;
}
