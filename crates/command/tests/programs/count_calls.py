"""For gdb: counts a program's calls of its own malloc and the like, from its first
constructor on, without those that the allocator makes of itself, and prints what a
recording should show: allocations, deallocations, reallocations."""

import gdb

counts = {"allocations": 0, "deallocations": 0, "reallocations": 0}
gdb.execute("set pagination off")
gdb.execute("set debuginfod enabled off")
gdb.execute("set breakpoint pending on")
gdb.execute("set startup-with-shell off")


def register(name):
    return int(gdb.parse_and_eval("(unsigned long)$" + name))


class Call(gdb.Breakpoint):
    """The first instruction of a function."""

    def stop(self):
        returns_to = int(gdb.parse_and_eval("*(unsigned long *)$rsp"))
        if not is_own(returns_to):
            self.count()
        return False


class Allocation(Call):
    def count(self):
        counts["allocations"] += 1


class Deallocation(Call):
    def count(self):
        counts["deallocations"] += register("rdi") != 0


class Reallocation(Call):
    def count(self):
        counts["allocations"] += 1
        counts["deallocations"] += register("rdi") != 0
        counts["reallocations"] += register("rdi") != 0


def is_own(address):
    return code[0] <= address < code[1]


def own_functions(name):
    """Addresses of the program's functions of this name."""
    found = gdb.execute("info functions ^%s$" % name, to_string=True)
    words = [line.split()[0] for line in found.splitlines() if line.startswith("0x")]
    return [int(word, 16) for word in words if is_own(int(word, 16))]


def own_code():
    """Where the program's section of code begins and ends."""
    for line in gdb.execute("info files", to_string=True).splitlines():
        if line.endswith(" is .text"):
            return [int(word, 16) for word in line.split()[0:3:2]]


gdb.execute("break _dl_init")
gdb.execute("run")
code = own_code()
for kind, names in {
    Allocation: ["malloc", "calloc", "posix_memalign", "aligned_alloc", "memalign", "valloc", "mallocx"],
    Deallocation: ["free", "sdallocx", "dallocx"],
    Reallocation: ["realloc", "rallocx"],
}.items():
    for address in {address for name in names for address in own_functions(name)}:
        kind("*%#x" % address, internal=True)
gdb.execute("continue")
print("counted", " ".join("%s=%d" % pair for pair in counts.items()))
