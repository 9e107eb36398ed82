"""Tests; nothing of the terminal in which they run reaches what they call or start.

A console reads some of these when it is made, at the first import of our code.
"""

import os

for name in (
    "FORCE_COLOR", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TTY_COMPATIBLE", "TTY_INTERACTIVE",
    "COLORTERM", "COLUMNS", "LINES",
):  # fmt: skip
    os.environ.pop(name, None)
os.environ["TERM"] = "dumb"  # a console on a real terminal has no escapes then, either
