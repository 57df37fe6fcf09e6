"""Runs a command whose standard error is a stopped terminal (Ctrl-S): writing to
it blocks. Sends the command the byte it waits for, reads its output until `done`,
prints that, and only then restarts the terminal. Ends with the command's status."""

import os
import subprocess
import sys
import termios
import threading

terminal, side = os.openpty()
termios.tcflow(side, termios.TCOOFF)
child = subprocess.Popen(
    sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=side
)
child.stdin.write(b"g")
child.stdin.close()
for line in child.stdout:
    if line == b"done\n":
        print("done while the terminal was stopped", flush=True)
        break
termios.tcflow(side, termios.TCOON)
os.close(side)


def read_all():
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:  # the terminal's other side is closed
        pass


threading.Thread(target=read_all, daemon=True).start()
sys.exit(child.wait())
