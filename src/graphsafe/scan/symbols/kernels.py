"""Functions that a kernel language compiles from their source: Python never runs their body."""

from __future__ import annotations

import re
from collections.abc import Iterable

_DECORATOR = re.compile(r"(?!torch\.)(\w+\.)*n?jit|(?!torch\.)(\w+\.)+(kernel|prim_func|macro)")
"`@triton.jit`, `@cute.kernel`, `@T.prim_func` and their kin; what torch compiles runs in Python as well."


def is_kernel(decorators: Iterable[str]) -> bool:
    """Whether a function with these decorators, by their dotted names, is one."""
    return any(_DECORATOR.fullmatch(decorator) for decorator in decorators)
