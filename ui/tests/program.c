/* Programs whose allocations are known, for the tests of the page: `program CASE`.
 *
 * `phases`: `first_phase` allocates 10 blocks of 1000 bytes; `second_phase` 20 of 300, and 4
 *     of the first are freed. At the end 6 of the first and 20 of the second are live; the
 *     peak is 10 * 1000 + 20 * 300 = 16,000 bytes.
 * `threads`: 3 threads with 400 blocks each of 16 to 79 bytes, of which each keeps the last
 *     8 alive.
 * `churn`: 4,000 replacements of blocks in 100 slots.
 * `forks`: a parent that allocates while 3 children do, each with 200 blocks.
 * `kept`: 500 blocks of 64 bytes, of which each fifth is freed at once.
 * `many N`: N children that allocate one block each.
 * `flood N`: waits for a byte of the standard input, frees each of N blocks of 48 bytes at once,
 *     and waits for the end of the standard input. It writes a byte before each wait.
 * `rise`: keeps 40 blocks of 1000 bytes, frees half of them, keeps 10 of 500: the peak is
 *     40 * 1000 bytes; 20 blocks of the first and 10 of the second are left.
 * `deep`: one block of 100 bytes, 1,500 calls deep.
 * `late`: 10 blocks of 1000 bytes at once and 10 after 400 ms; the run is about 500 ms.
 * `one`: one block of 100 bytes. `none`: nothing.
 * `names`: 7 blocks of 24 bytes from `evil`, 3 of 40 from `long_name`; the test renames
 *     both.
 * `live`: allocates 4 MiB in blocks of 4 KiB, and 3 blocks of 64 KiB in `few`, writes a byte,
 *     and stays until the end of the standard input. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ALONE __attribute__((noipa))

static void *blocks[4096];

static void pause_for(long us) {
    struct timespec moment = {.tv_nsec = us * 1000};
    nanosleep(&moment, NULL);
}

static uint32_t next(uint32_t *state) {
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

ALONE void first_phase(void) {
    for (int i = 0; i < 10; i++) {
        blocks[i] = malloc(1000);
        pause_for(2000);
    }
}

ALONE void second_phase(void) {
    for (int i = 10; i < 30; i++) {
        blocks[i] = malloc(300);
        pause_for(1000);
    }
    for (int i = 0; i < 4; i++) {
        free(blocks[i]);
        pause_for(2000);
    }
}

ALONE void *one_of_many(uint32_t *state) { return malloc(16 + next(state) % 64); }

ALONE void *work(void *seed) {
    uint32_t state = (uint32_t)(uintptr_t)seed;
    void *last[8] = {0};
    for (int i = 0; i < 400; i++) {
        free(last[i % 8]);
        last[i % 8] = one_of_many(&state);
        if (i % 20 == 0)
            pause_for(1000);
    }
    return last[0];
}

ALONE void threads(void) {
    pthread_t all[3];
    for (uintptr_t i = 0; i < 3; i++)
        pthread_create(&all[i], NULL, work, (void *)(i + 1));
    for (int i = 0; i < 3; i++)
        pthread_join(all[i], NULL);
}

ALONE void churn(void) {
    uint32_t state = 7;
    for (int i = 0; i < 4000; i++) {
        int slot = next(&state) % 100;
        free(blocks[slot]);
        blocks[slot] = one_of_many(&state);
        if (i % 50 == 0)
            pause_for(500);
    }
}

ALONE void child(uint32_t seed) {
    for (int i = 0; i < 200; i++) {
        blocks[i] = one_of_many(&seed);
        if (i % 3 == 0)
            free(blocks[i]);
        if (i % 10 == 0)
            pause_for(1000);
    }
}

ALONE void forks(void) {
    for (uint32_t i = 0; i < 3; i++) {
        if (fork() == 0) {
            child(i);
            _exit(0);
        }
        child(i + 10);
    }
    while (wait(NULL) > 0)
        ;
}

ALONE void kept(void) {
    for (int i = 0; i < 500; i++) {
        blocks[i] = malloc(64);
        if (i % 5 == 0)
            free(blocks[i]);
        pause_for(200);
    }
}

ALONE void many(int count) {
    for (int i = 0; i < count; i++) {
        if (fork() == 0) {
            blocks[0] = malloc(100 + i);
            _exit(0);
        }
        wait(NULL);
    }
}

ALONE void wait_for_input(void) {
    char byte;
    if (write(1, ".", 1) != 1 || read(0, &byte, 1) < 0)
        _exit(1);
}

ALONE void flood(int count) {
    wait_for_input();
    for (int i = 0; i < count; i++) {
        blocks[0] = malloc(48);
        free(blocks[0]);
    }
    wait_for_input();
}

ALONE void rise_to_the_peak(void) {
    for (int i = 0; i < 40; i++) {
        blocks[i] = malloc(1000);
        pause_for(500);
    }
}

ALONE void after_the_peak(void) {
    for (int i = 0; i < 20; i++) {
        free(blocks[i]);
        pause_for(500);
    }
    for (int i = 0; i < 10; i++)
        blocks[i] = malloc(500);
}

ALONE int deeper(int more) {
    if (more == 0)
        blocks[0] = malloc(100);
    else
        deeper(more - 1);
    return more;
}

ALONE void early_blocks(void) {
    for (int i = 0; i < 10; i++)
        blocks[i] = malloc(1000);
}

ALONE void late_blocks(void) {
    for (int i = 10; i < 20; i++)
        blocks[i] = malloc(1000);
}

ALONE void evil(void) {
    for (int i = 0; i < 7; i++)
        blocks[i] = malloc(24);
}

ALONE void long_name(void) {
    for (int i = 0; i < 3; i++)
        blocks[10 + i] = malloc(40);
}

ALONE void few(void) {
    for (int i = 0; i < 3; i++)
        blocks[1024 + i] = malloc(65536);
}

ALONE void live(void) {
    for (int i = 0; i < 1024; i++)
        blocks[i] = malloc(4096);
    few();
    wait_for_input();
}

int main(int count, char **words) {
    const char *which = count > 1 ? words[1] : "none";
    if (strcmp(which, "phases") == 0) {
        first_phase();
        second_phase();
    } else if (strcmp(which, "threads") == 0) {
        threads();
    } else if (strcmp(which, "churn") == 0) {
        churn();
    } else if (strcmp(which, "forks") == 0) {
        forks();
    } else if (strcmp(which, "kept") == 0) {
        kept();
    } else if (strcmp(which, "many") == 0 && count > 2) {
        many(atoi(words[2]));
    } else if (strcmp(which, "flood") == 0 && count > 2) {
        flood(atoi(words[2]));
    } else if (strcmp(which, "rise") == 0) {
        rise_to_the_peak();
        after_the_peak();
    } else if (strcmp(which, "deep") == 0) {
        deeper(1500);
    } else if (strcmp(which, "late") == 0) {
        early_blocks();
        pause_for(400000);
        late_blocks();
        pause_for(100000);
    } else if (strcmp(which, "one") == 0) {
        blocks[0] = malloc(100);
    } else if (strcmp(which, "names") == 0) {
        evil();
        long_name();
    } else if (strcmp(which, "live") == 0) {
        live();
    }
    return 0;
}
