/* Shows what is in its process. With arguments it first starts them as a child, by which a
 * program that has gained rights becomes the parent of one that has them from the start:
 *
 *     privileged [--for-good] [PROGRAM ARGUMENT...]
 *
 * --for-good: its real user becomes its effective one.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    argv++;
    if (*argv && strcmp(*argv, "--for-good") == 0) {
        if (setgid(getegid()) != 0 || setuid(geteuid()) != 0)
            return 91;
        argv++;
    }
    if (*argv) {
        pid_t child = fork();
        if (child == 0) {
            execv(*argv, argv);
            _exit(90);
        }
        waitpid(child, 0, 0);
    }
    for (int i = 0; i < 100; i++)
        free(malloc(1000 + i));
    /* As a program that is built with allotrope.h finds it. */
    unsigned (*recording)(void) = (unsigned (*)(void))dlsym(RTLD_DEFAULT, "allotrope_recording");
    printf("process %d secure %lu recording %d\n", getpid(), getauxval(AT_SECURE),
           recording ? (int)recording() : -1);
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        printf("map %s", line);
    if (maps)
        fclose(maps);
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    while (folder && (entry = readdir(folder)))
        if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(folder))
            printf("descriptor %s\n", entry->d_name);
    return 0;
}
