"""Runs a command whose standard error is a terminal that somebody has stopped
(Ctrl-S): who writes there waits. Gives the command the byte it waits for, reads
its output until `done`, says so, and only then lets the terminal go on. Ends
with the command's status."""

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
