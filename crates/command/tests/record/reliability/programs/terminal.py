"""Runs a command on a terminal of its own, presses Ctrl-C when the command has
printed that it is ready, and ends with the command's status, or 128+N if signal N
ended it."""

import os
import pty
import sys

child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
output = b""
pressed = False
while True:
    try:
        piece = os.read(terminal, 4096)
    except OSError:  # the terminal's other side is closed
        break
    if not piece:
        break
    output += piece
    if not pressed and b"ready" in output and output.endswith(b"\n"):
        os.write(terminal, b"\x03")
        pressed = True
_, status = os.waitpid(child, 0)
sys.stdout.buffer.write(output)
sys.stdout.flush()
code = os.waitstatus_to_exitcode(status)
sys.exit(code if code >= 0 else 128 - code)
