"""The syntax trees of the user's files."""

from __future__ import annotations

import ast
from collections.abc import Sequence


def tree_of(lines: Sequence[str] | None) -> ast.Module:
    """Parse the lines of a file. The tree is empty if the file could not be read or is not legal in this Python."""
    try:
        return ast.parse("\n".join(lines or ()))
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])
