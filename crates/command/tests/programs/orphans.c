/* 20 processes lose their parent and end. The first process of their pid namespace inherits
 * them, and has to wait for them: status 5 if it does, 6 if it does not within 30 s. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Processes of this program that have ended, and for which nobody has waited. */
static int zombies(void) {
    int count = 0;
    DIR *all = opendir("/proc");
    for (struct dirent *entry; all != NULL && (entry = readdir(all)) != NULL;) {
        char path[300], line[200] = "";
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            continue;
        if (fgets(line, sizeof line, file) != NULL)
            count += strstr(line, ") Z ") != NULL;
        fclose(file);
    }
    closedir(all);
    return count;
}

int main(void) {
    int ends[2];
    if (pipe(ends) != 0)
        return 97;
    for (int i = 0; i < 20; i++) {
        int child = fork();
        if (child == 0) {
            if (fork() == 0) {
                close(ends[0]);
                usleep(100000);
            }
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    close(ends[1]);
    char byte;
    /* The last of them ends. */
    if (read(ends[0], &byte, 1) != 0)
        return 97;
    for (int wait = 0; wait < 3000; wait++) {
        if (zombies() == 0)
            return 5;
        usleep(10000);
    }
    return 6;
}
