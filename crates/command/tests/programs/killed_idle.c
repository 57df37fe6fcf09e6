/* Allocates nothing and is ended by a signal; the C library allocates nothing
 * for it either. */
#include <signal.h>
#include <unistd.h>

int main(void) {
    kill(getpid(), SIGKILL);
    return 0;
}
