"""Functions that a kernel language compiles from their source. Python never runs the body of such a function."""

from __future__ import annotations

import re
from collections.abc import Iterable

_DECORATOR = re.compile(r"(?!torch\.)(\w+\.)*n?jit|(?!torch\.)(\w+\.)+(kernel|prim_func|macro)")
"""Matches decorators such as `@triton.jit`, `@cute.kernel` and `@T.prim_func`. Functions that torch compiles are
excluded, because they also run in Python."""


def is_kernel(decorators: Iterable[str]) -> bool:
    """Return whether a function is a kernel, given the dotted names of its decorators."""
    return any(_DECORATOR.fullmatch(decorator) for decorator in decorators)
