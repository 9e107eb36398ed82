"""Run a command in a terminal of 80 columns, as a person has it; its output is printed, too.

python .ci/terminal.py make test
"""

import fcntl
import os
import pty
import struct
import sys
import termios

ROWS, COLUMNS = 24, 80

child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    os.execvp(sys.argv[1], sys.argv[1:])
while True:
    try:
        output = os.read(terminal, 1 << 16)
    except OSError:  # Linux: the command has ended
        break
    if not output:
        break
    sys.stdout.buffer.write(output)
    sys.stdout.buffer.flush()
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
