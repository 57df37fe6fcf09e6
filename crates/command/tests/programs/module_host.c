// Loads libraries in unusual ways and has them allocate. The first argument says how; each
// library's function `plugin_work` allocates N blocks in its static function `plugin_block`.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, dlerror());
    return 2;
}

static void *open_library(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) _exit(fail(path));
    return library;
}

static void work(void *library, int blocks) {
    int (*plugin_work)(int) = (int (*)(int))dlsym(library, "plugin_work");
    if (!plugin_work || plugin_work(blocks) != blocks) _exit(fail("plugin_work"));
}

// A copy of the library in memory, opened by its descriptor, which is closed at once.
static void *open_in_memory(const char *path) {
    struct stat status;
    int from = open(path, O_RDONLY), to = memfd_create("plugin", MFD_CLOEXEC);
    if (from < 0 || to < 0 || fstat(from, &status)) _exit(3);
    if (sendfile(to, from, NULL, status.st_size) != status.st_size) _exit(3);
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", to);
    void *library = open_library(name);
    close(from);
    close(to);
    return library;
}

int main(int argc, char **argv) {
    const char *how = argv[1], *path = argv[2];
    if (!strcmp(how, "deleted")) {
        void *library = open_library(path);
        unlink(path);
        work(library, 300);
    } else if (!strcmp(how, "memory")) {
        work(open_in_memory(path), 300);
    } else if (!strcmp(how, "relative")) {
        if (chdir(path)) return 4;
        void *library = open_library("./plugin.so");
        if (chdir("/")) return 4;
        work(library, 300);
    } else if (!strcmp(how, "replaced")) {
        // Two builds, one after the other, at one path.
        for (int build = 3; build < 5; build++) {
            if (rename(argv[build], path)) return 5;
            void *library = open_library(path);
            work(library, 100 * build);
            dlclose(library);
        }
    } else if (!strcmp(how, "upgraded")) {
        // The file is replaced by another build while it is mapped.
        void *library = open_library(path);
        if (rename(argv[3], path)) return 5;
        work(library, 300);
    } else if (!strcmp(how, "asked")) {
        // Works once for each line of the input.
        void *library = open_library(path);
        puts("ready");
        fflush(stdout);
        for (int byte; (byte = getchar()) != EOF;) {
            if (byte != '\n') continue;
            work(library, 100);
            puts("ok");
            fflush(stdout);
        }
    } else if (!strcmp(how, "overwritten")) {
        // Another build of the same code is written into the mapped file.
        struct stat status;
        void *library = open_library(path);
        int to = open(path, O_WRONLY), from = open(argv[3], O_RDONLY);
        if (from < 0 || to < 0 || fstat(from, &status)) return 5;
        if (sendfile(to, from, NULL, status.st_size) != status.st_size) return 5;
        if (ftruncate(to, status.st_size)) return 5;
        work(library, 300);
    } else if (!strcmp(how, "forked")) {
        // A child begins when the file is another build already.
        void *library = open_library(path);
        work(library, 300);
        if (rename(argv[3], path)) return 5;
        if (fork() == 0) {
            work(library, 400);
            _exit(0);
        }
        usleep(200000);
    } else {
        return 6;
    }
    return 0;
}
