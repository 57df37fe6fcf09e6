// For `allotrope cpu`: touches 50,000 pages of a mapping without huge pages, one page fault
// each; two thousand more blocks of one page from malloc are touched and never freed. The start
// of the process adds some hundred. It ends with status 7.
#include <stdlib.h>
#include <sys/mman.h>

enum { PAGES = 50000, PAGE = 4096 };

int main(void) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *all = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (all == MAP_FAILED || madvise(all, (size_t)PAGES * PAGE, MADV_NOHUGEPAGE) != 0) {
        return 1;
    }
    for (int i = 0; i < PAGES; i++) {
        ((volatile char *)all)[(size_t)i * PAGE] = 1;
    }
    for (int i = 0; i < 2000; i++) {
        char *volatile block = malloc(PAGE);
        block[0] = 1;
    }
    return 7;
}
