"""Makes the names of kernels readable. A kernel's own name is a mangled name of a C++ function."""

from __future__ import annotations

import re

_LITERAL = re.compile(r"L[a-z]n?\d+E")
"Matches a literal number among a template's arguments. Such a number is not the length of a name."
_LENGTH = re.compile(r"[1-9]\d*")
_NAME = re.compile(r"[A-Za-z_]\w*")


def readable(op: str) -> str:
    """Return a kernel's function and, in parentheses, its computation: `vectorized_elementwise_kernel
    (cos_kernel_cuda)`.

    Other names, such as those of operations, are returned as they are. Arguments of templates are left out, so
    different kernels may have the same readable name. In mangled names (Itanium C++ ABI), each name comes after its
    length.
    """
    if not op.startswith("_Z"):
        return op
    names = [name for name in _names(op) if "kernel" in name.lower() or name.endswith(("Functor", "Ops"))]
    if not names:
        return op
    own, computed = names[0], names[-1]
    return own if own == computed else f"{own} ({computed})"


def _names(symbol: str) -> list[str]:
    found, at = [], 2
    while at < len(symbol):
        literal = _LITERAL.match(symbol, at)
        length = _LENGTH.match(symbol, at)
        if literal is not None:
            at = literal.end()
        elif length is not None:
            name = symbol[length.end() : length.end() + int(length[0])]
            is_name = _NAME.fullmatch(name) is not None
            found += [name] if is_name else []
            at = length.end() + (len(name) if is_name else 0)
        else:
            at += 1
    return found
