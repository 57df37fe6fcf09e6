/* Code without unwind information, where the stack ends, and code with unusual
 * information. `unknown_code CASE`; the truth is printed, see truth.h. */
#include "truth.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#define TIMES 50

/* Assembler without call frame information. */
void without_information(void (*function)(void));
__asm__(".text\n"
        ".globl without_information\n"
        ".type without_information, @function\n"
        "without_information:\n"
        "    push %rbx\n"
        "    sub $48, %rsp\n"
        "    call *%rdi\n"
        "    add $48, %rsp\n"
        "    pop %rbx\n"
        "    ret\n"
        ".size without_information, . - without_information\n");

/* Assembler that describes its frame by rbx: no compact rule fits. */
void by_another_register(void (*function)(void));
__asm__(".text\n"
        ".globl by_another_register\n"
        ".type by_another_register, @function\n"
        "by_another_register:\n"
        "    .cfi_startproc\n"
        "    push %rbx\n"
        "    .cfi_def_cfa_offset 16\n"
        "    .cfi_offset %rbx, -16\n"
        "    mov %rsp, %rbx\n"
        "    .cfi_def_cfa_register %rbx\n"
        "    and $-64, %rsp\n"
        "    sub $192, %rsp\n"
        "    call *%rdi\n"
        "    mov %rbx, %rsp\n"
        "    .cfi_def_cfa_register %rsp\n"
        "    pop %rbx\n"
        "    .cfi_def_cfa_offset 8\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size by_another_register, . - by_another_register\n");

ALONE static void below(void) {
    allocate(3);
    NO_TAIL_CALL;
}

ALONE static void deeper(int depth, void (*enter)(void (*)(void))) {
    if (depth > 0)
        deeper(depth - 1, enter);
    else
        enter(below);
    NO_TAIL_CALL;
}

ALONE static void assembler(void) {
    for (int i = 0; i < TIMES; i++) {
        deeper(i % 3, without_information);
        allocate(5);
    }
    EXPECT(TIMES, 3 * TIMES, "allocate below without_information");
    EXPECT(TIMES, 5 * TIMES, "allocate assembler main _start");
}

ALONE static void register_frames(void) {
    for (int i = 0; i < 2 * TIMES; i++) {
        deeper(i % 2, by_another_register);
        allocate(5);
    }
    for (int depth = 1; depth <= 2; depth++)
        EXPECT(TIMES, 3 * TIMES,
               "allocate below by_another_register deeper*%d register_frames main _start", depth);
    EXPECT(2 * TIMES, 10 * TIMES, "allocate register_frames main _start");
}

/* The same on small stacks: a thread's of 16 KiB, and half a page on top of what the
 * kernel needs for a signal. */
ALONE static void on_signal(int number) {
    (void)number;
    by_another_register(below);
    NO_TAIL_CALL;
}

ALONE static void *in_thread(void *nothing) {
    by_another_register(below);
    return nothing;
}

ALONE static void small_stacks(void) {
    allocate(5); /* binds malloc and free, which needs more stack */
    stack_t alternate = {.ss_size = sysconf(_SC_MINSIGSTKSZ) + 2048};
    /* Behind a page that cannot be accessed. */
    char *area = (char *)mmap(NULL, alternate.ss_size + 4096, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(area, 4096, PROT_NONE);
    alternate.ss_sp = area + 4096;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK;
    sigaltstack(&alternate, NULL);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);

    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 16 << 10);
    pthread_create(&thread, &attributes, in_thread, NULL);
    pthread_join(thread, NULL);
    EXPECT(1, 5, "allocate small_stacks main _start");
    EXPECT(1, 3, "allocate below by_another_register on_signal small_stacks main _start");
    EXPECT(1, 3, "allocate below by_another_register in_thread");
    EXPECT_ANY_SIZE(1, "small_stacks main _start");
}

/* JIT code: calls a function of the program, or malloc itself. */
ALONE static void jit_code(void) {
    unsigned char *code = (unsigned char *)mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* sub $8, %rsp; call *%rsi; add $8, %rsp; ret */
    static const unsigned char calls[] = {0x48, 0x83, 0xec, 8, 0xff, 0xd6, 0x48, 0x83, 0xc4, 8, 0xc3};
    memcpy(code, calls, sizeof calls);
    for (int i = 0; i < TIMES; i++) {
        ((void (*)(long, void (*)(void)))code)(0, below);
        free(((void *(*)(size_t, void *(*)(size_t)))code)(7, malloc));
        allocate(5);
    }
    /* The calls of malloc by the JIT code itself have no frame of the program; the
     * test looks for them. */
    EXPECT(TIMES, 3 * TIMES, "allocate below");
    EXPECT(TIMES, 5 * TIMES, "allocate jit_code main _start");
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "assembler") == 0)
        assembler();
    else if (strcmp(name, "register_frames") == 0)
        register_frames();
    else if (strcmp(name, "small_stacks") == 0)
        small_stacks();
    else if (strcmp(name, "jit_code") == 0)
        jit_code();
    else
        return 98;
    return 0;
}
