// The log is opened for each record, where it stayed open.
// BLAME write_records
#include <stdio.h>

__attribute__((noinline)) static int write_records(const char *path, int records) {
    static char buffer[512];
    int written = 0;
#ifndef AFTER
    FILE *log = fopen(path, "a");
    if (!log)
        return 0;
    setvbuf(log, buffer, _IOFBF, sizeof buffer);
#endif
    for (int record = 0; record < records; record++) {
#ifdef AFTER
        FILE *log = fopen(path, "a"); // MARK blame
        if (!log)
            return 0;
        setvbuf(log, buffer, _IOFBF, sizeof buffer);
#endif
        written += fprintf(log, "record %d\n", record);
#ifdef AFTER
        fclose(log);
#endif
    }
#ifndef AFTER
    fclose(log);
#endif
    return written;
}

int main(void) {
    return write_records("/dev/null", 300) == 0;
}
