/* Prints its arguments and its environment; the status is 5. */
#include <stdio.h>
#include <stdlib.h>

extern char **environ;

int main(int argc, char **argv) {
    for (int i = 0; i < argc; i++)
        printf("argument %s\n", argv[i]);
    for (char **variable = environ; *variable; variable++)
        printf("variable %s\n", *variable);
    free(malloc(11));
    return 5;
}
