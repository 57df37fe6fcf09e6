// A library without any function of an allocator.
int nothing(void) {
    return 0;
}
