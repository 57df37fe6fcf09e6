/* JIT code that allocates, named in /tmp/perf-PID.map or in a jitdump; later other
 * code is written to the same addresses.
 *
 *   jit_code map PAUSE      perf map, PAUSE milliseconds after each part
 *   jit_code dump PAUSE     jitdump in the current folder
 *   jit_code between        a function of the program's, called by JIT code
 *
 * The first code allocates 50 blocks of 7 bytes, the second at the same
 * addresses 30 blocks of 9. In "between" `allocates` gets 20 blocks of 11. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* push %rbp; mov %rsp, %rbp; call *%rsi; pop %rbp; ret */
static const unsigned char calls[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd6, 0x5d, 0xc3};

typedef void *jit_function(size_t, void *(*)(size_t));

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static FILE *map, *dump;

static void pause_for(const char *milliseconds) {
    usleep(1000 * atoi(milliseconds));
}

static void open_map(void) {
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    map = fopen(path, "w");
}

/* tools/perf/Documentation/jitdump-specification.txt */
static void open_dump(void) {
    char path[64];
    snprintf(path, sizeof path, "jit-%d.dump", getpid());
    dump = fopen(path, "w+");
    struct {
        uint32_t magic, version, size, machine, pad, pid;
        uint64_t time, flags;
    } header = {0x4a695444, 1, sizeof header, 62, 0, getpid(), now(), 0};
    fwrite(&header, sizeof header, 1, dump);
    fflush(dump);
    /* The executable mapping by which profilers find the dump. */
    mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0);
}

static void name(const void *code, const char *function) {
    static uint64_t index;
    if (map) {
        fprintf(map, "%lx %zx %s\n", (unsigned long)code, sizeof calls, function);
        fflush(map);
    }
    if (dump) {
        size_t length = strlen(function) + 1;
        struct {
            uint32_t kind, size;
            uint64_t time;
            uint32_t pid, tid;
            uint64_t vma, address, bytes, index;
        } load = {0, sizeof load + length + sizeof calls, now(), getpid(), getpid(),
                  (uintptr_t)code, (uintptr_t)code, sizeof calls, index++};
        fwrite(&load, sizeof load, 1, dump);
        fwrite(function, length, 1, dump);
        fwrite(calls, sizeof calls, 1, dump);
        fflush(dump);
    }
}

__attribute__((noinline)) static void *allocates(size_t size) {
    void *block = malloc(size);
    __asm__ volatile("" ::"r"(block) : "memory");
    return block;
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, calls, sizeof calls);
    jit_function *code = (jit_function *)page;
    if (strcmp(argv[1], "between") == 0) {
        open_map();
        name(page, "jit between");
        for (int i = 0; i < 20; i++)
            free(code(11, allocates));
        return 0;
    }
    if (strcmp(argv[1], "map") == 0)
        open_map();
    else
        open_dump();
    name(page, "first version");
    for (int i = 0; i < 50; i++)
        free(code(7, malloc));
    pause_for(argv[2]);
    memset(page, 0xcc, sizeof calls);
    memcpy(page, calls, sizeof calls);
    name(page, "second version");
    for (int i = 0; i < 30; i++)
        free(code(9, malloc));
    return 0;
}
