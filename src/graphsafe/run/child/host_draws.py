"""Finds out whether a capture drew random numbers on the host, from the global generators of `random` and NumPy."""

from __future__ import annotations

import random
import sys
from typing import Any


def drawn_so_far() -> tuple[Any, ...]:
    """Return the states of both generators. They are different after a draw."""
    numpy: Any = sys.modules.get("numpy.random")
    state = None if numpy is None else numpy.get_state()
    return random.getstate(), None if state is None else (state[1].tobytes(), *state[2:])


def draws(function: Any) -> bool:
    """Return whether a function, such as `random.random` or `np.random.rand`, draws from one of these generators."""
    numpy: Any = sys.modules.get("numpy.random")
    known = [random.random, *([] if numpy is None else [numpy.rand])]
    owner = getattr(function, "__self__", None)
    return any(owner is one.__self__ for one in known)
