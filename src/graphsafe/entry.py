"""The entry point of the command. It is small, so that Ctrl-C is handled even during the imports.

After Ctrl-C, `capture` ends with an inconclusive report, and all other commands end with one line.
"""

import sys

from graphsafe.interrupts import hold_interrupts


def run() -> int:
    """Import and run the command line, and return the exit code."""
    if sys.argv[1:2] == ["capture"]:
        hold_interrupts()
    try:
        from graphsafe.cli import run as run_command
    except KeyboardInterrupt:
        print("graphsafe: interrupted", file=sys.stderr)
        return 130
    return run_command()
