"""The names of memory that an operation uses: the path of a piece of state, and the first element that is used."""

from __future__ import annotations

_FROM = " from element "


def memory_name(path: str, offset: object) -> str:
    """Return the name of the memory at a path. `offset` is the number of the first element, which may be symbolic."""
    return f"{path}{_FROM}{offset}"


def path_of(name: str) -> str | None:
    """Return the path in a name of memory, or None if the name has no path."""
    return name.rpartition(_FROM)[0] or None
