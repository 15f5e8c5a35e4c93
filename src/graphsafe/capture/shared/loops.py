"""Tells which `while` loop of the live stack is running, from the bytecode of its frames.

`for` loops end with what they go through; `while` loops may go on for ever.
"""

from __future__ import annotations

import dis
import functools
import sys
from types import CodeType

from graphsafe.capture.shared.frames import frames_from, is_graphsafe_file

_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))
Way = tuple[tuple[CodeType, int], ...]
"Code objects with the instructions that they run, from the innermost to the one whose loop is running."


def running_while() -> Way | None:
    """Return the way from this call to the innermost running loop; None if that is a `for` loop, or there is none.
    graphsafe's own frames are left out."""
    way: list[tuple[CodeType, int]] = []
    for frame in frames_from(sys._getframe(1)):
        at = frame.f_code, frame.f_lasti
        if not is_graphsafe_file(at[0].co_filename):
            way.append(at)
            loop = _loop_around(*at)
            if loop is not None:
                return None if loop == "FOR_ITER" else tuple(way)
    return None


@functools.lru_cache(maxsize=4096)
def _loop_around(code: CodeType, at: int) -> str | None:
    """Return the name of the instruction with which the innermost loop around an instruction begins."""
    instructions = [one for one in dis.get_instructions(code) if one.opname != "EXTENDED_ARG"]
    back = [(one.offset, one.argval) for one in instructions if one.opcode in _JUMPS and one.argval <= at <= one.offset]
    if not back:
        return None
    _, begin = min(back, key=lambda jump: jump[0] - jump[1])
    return next(one.opname for one in instructions if one.offset >= begin)
