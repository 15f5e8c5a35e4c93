"""Writes numbers, strings and similar values as strings for comparison, and decides which objects are such values."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Collection
from decimal import Decimal
from fractions import Fraction
from typing import Any

_LONGEST = 80
ADDRESS = 1 << 40
"Integers of at least this size are treated as addresses, which differ from process to process."
SCALARS = (bool, int, float, complex, str, bytes, type(None))


def are_scalars(values: Collection[Any]) -> bool:
    """Return whether all values are numbers, strings, bytes, times or None, of exactly Python's own classes."""
    return set(map(id, map(type, values))) <= WRITERS.keys()


def digest(data: str | bytes) -> str:
    """Return the digest of data. A lone surrogate in a string, which UTF-8 does not allow, is encoded too."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return hashlib.blake2b(raw, digest_size=8).hexdigest()


def text_of(value: Any) -> str:
    """Return a number or a string as Python's own class writes it, or a digest if the result would be long."""
    write = WRITERS.get(id(type(value)))
    if write is None:
        write = next(write for scalar, write in _WRITTEN.items() if issubclass(type(value), scalar))
    return write(value)


def _text(value: str) -> str:
    return str.__repr__(value) if str.__len__(value) < _LONGEST else digest(str.__str__(value))


def _data(value: bytes) -> str:
    return bytes.__repr__(value) if bytes.__len__(value) < _LONGEST else digest(bytes.__getitem__(value, slice(None)))


def _whole(value: int) -> str:
    """Write an integer of any size. Python refuses to write more than some thousand decimal digits."""
    return int.__repr__(value) if int.bit_length(value) < 3 * _LONGEST else digest(hex(int.__index__(value)))


_WRITTEN: dict[type, Callable[[Any], str]] = {
    type(None): lambda value: "None",
    bool: bool.__repr__,
    int: _whole,
    float: float.__repr__,
    complex: complex.__repr__,
    str: _text,
    bytes: _data,
    **dict.fromkeys((datetime.datetime, datetime.date, datetime.time, datetime.timedelta, Decimal, Fraction), repr),
}
WRITERS = {id(kind): write for kind, write in _WRITTEN.items()}
"The keys are the addresses of Python's own classes, because hashing a class may run code of its metaclass."


def key_text(key: Any) -> str | None:
    """Return a dict's key as paths spell it. Return None if the key would not be the same string in each process: an
    object, a tensor, or an address (as `id` returns it)."""
    if type(key) is int and key > ADDRESS:
        return None
    if issubclass(type(key), SCALARS):
        return text_of(key)
    if type(key) is tuple:
        parts = [key_text(part) for part in key]
        known = [part for part in parts if part is not None]
        return f"({', '.join(known)}{',' if len(known) == 1 else ''})" if len(known) == len(parts) else None
    return None


def dotted(dot: str, name: Any) -> str:
    """Join a path and an attribute's name. A name that was set by hand may be any object. `dot` is empty or ends in a
    dot."""
    if type(name) is not str:
        return f"{dot}[{key_text(name) or '...'}]"
    return dot + (name if name.isascii() else name.encode("utf-8", "backslashreplace").decode())
