"""The entry point of the command. It is small, so that Ctrl-C is handled even during the imports.

`capture` then ends with an inconclusive report, as it does later. All other commands end with one line.
"""

import sys

from graphsafe.interrupts import hold_interrupts


def run() -> int:
    """Import the command line, run it as the whole work of this process, and return the exit code."""
    if sys.argv[1:2] == ["capture"]:
        hold_interrupts()
    try:
        from graphsafe.cli import run as run_command
    except KeyboardInterrupt:
        print("graphsafe: interrupted", file=sys.stderr)
        return 130
    return run_command()
