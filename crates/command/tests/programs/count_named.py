"""For gdb: counts a program's calls of the functions in the variable NAMED, separated by spaces, without
those that one of them makes, and prints them. The program is recorded. SIZE_ and the name of a function is a variable with the number
of bytes of its code. Counting begins behind the constructors of libraries."""

import os

import gdb

names = os.environ["NAMED"].split()
ranges = []
counts = dict.fromkeys(names, 0)
gdb.execute("set pagination off")
gdb.execute("set debuginfod enabled off")
gdb.execute("set breakpoint pending on")
gdb.execute("set startup-with-shell off")


class Call(gdb.Breakpoint):
    """The first instruction of a function."""

    def stop(self):
        returns_to = int(gdb.parse_and_eval("*(unsigned long *)$rsp"))
        is_inner = any(start < returns_to <= end for start, end in ranges)
        # A function that jumps to another one does so below the recorder's stub.
        is_inner = is_inner or "allotrope" in (gdb.solib_name(returns_to) or "")
        counts[self.function] += not is_inner
        return False


gdb.execute("break __libc_start_main")
gdb.execute("run")
gdb.execute("delete")
for name in names:
    start = int(gdb.parse_and_eval("(unsigned long)&%s" % name))
    ranges.append((start, start + int(os.environ["SIZE_" + name])))
for name, (start, _) in zip(names, ranges):
    call = Call("*%#x" % start, internal=True)
    call.function = name
gdb.execute("continue")
print("counted", " ".join("%s=%d" % pair for pair in counts.items()))
