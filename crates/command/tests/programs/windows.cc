// C++ operators in a window: five `new`, three `delete`.
#include <cstdint>
#include <dlfcn.h>

static int *volatile kept[5];

int main() {
    auto open = reinterpret_cast<uint64_t (*)(const char *, size_t, uint64_t, uint32_t)>(
        dlsym(RTLD_DEFAULT, "allotrope_window_open"));
    auto close = reinterpret_cast<void (*)(uint64_t, uint32_t)>(
        dlsym(RTLD_DEFAULT, "allotrope_window_close"));
    if (!open || !close)
        return 9;
    uint64_t window = open("operators", 9, 5, 0);
    for (int i = 0; i < 5; i++)
        kept[i] = new int(i);
    for (int i = 0; i < 3; i++)
        delete kept[i];
    close(window, 0);
    delete kept[3];
    return 0;
}
