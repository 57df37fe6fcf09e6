// Prints the error of a failed look-up after the first calls of operators.
#include <cstdio>
#include <dlfcn.h>
#include <new>

static void say(const char *when) {
    const char *error = dlerror();
    std::printf("%s: %s\n", when, error ? error : "no error");
}

int main() {
    say("start");
    dlsym(RTLD_DEFAULT, "no_function_has_this_name");
    char *block = new char[10];
    delete[] block;
    int *number = new int;
    delete number;
    ::operator delete(::operator new(20, std::nothrow), std::nothrow);
    ::operator delete[](::operator new[](20, std::align_val_t(64)), std::align_val_t(64));
    say("failed before");
    return 0;
}
