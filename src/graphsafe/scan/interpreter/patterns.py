"""Patterns of `match`: the values that they compare, and the names that they bind."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from collections.abc import Sequence as SequenceOf

from graphsafe.scan.domain.joins import sequence
from graphsafe.scan.domain.naming import bound_to
from graphsafe.scan.domain.values import UNKNOWN, Dict, Sequence, Value
from graphsafe.scan.execution.frame import Frame


def compared(pattern: ast.pattern, subject: Value) -> Iterator[Value]:
    """Yield the parts of the subject that a pattern compares with `==`. Python compares a tensor with a string without
    reading the tensor."""
    for part, value in _parts(pattern, subject):
        if isinstance(part, ast.MatchValue):
            is_text = isinstance(part.value, ast.Constant) and isinstance(part.value.value, str)
            yield from () if is_text else (value,)


def bind(frame: Frame, pattern: ast.pattern, subject: Value) -> None:
    """Bind the names of a pattern to the parts of the subject."""
    for part, value in _parts(pattern, subject):
        if isinstance(part, (ast.MatchAs, ast.MatchStar)) and part.name is not None:
            frame.env[part.name] = UNKNOWN if _asks_for_type(part) else bound_to(value, part.name)
        elif isinstance(part, ast.MatchMapping) and part.rest is not None:
            frame.env[part.rest] = UNKNOWN


def _asks_for_type(pattern: ast.pattern) -> bool:
    """Return whether only some alternatives of a value match a pattern, as in `case int() as n`."""
    return any(isinstance(part, (ast.MatchClass, ast.MatchSingleton)) for part in ast.walk(pattern))


def _parts(pattern: ast.pattern, value: Value) -> Iterator[tuple[ast.pattern, Value]]:
    """Yield a pattern and the patterns inside it, each with the part of the subject that it must match."""
    yield pattern, value
    if isinstance(pattern, ast.MatchOr):
        for option in pattern.patterns:
            yield from _parts(option, value)
    elif isinstance(pattern, ast.MatchAs) and pattern.pattern is not None:
        yield from _parts(pattern.pattern, value)
    elif isinstance(pattern, ast.MatchSequence):
        for part, item in zip(pattern.patterns, _items(pattern.patterns, value), strict=False):
            yield from _parts(part, item)
    elif isinstance(pattern, ast.MatchMapping):
        known = dict(value.items) if type(value) is Dict else {}
        for key, part in zip(pattern.keys, pattern.patterns, strict=True):
            yield from _parts(part, known.get(key.value, UNKNOWN) if isinstance(key, ast.Constant) else UNKNOWN)
    elif isinstance(pattern, ast.MatchClass):
        for part in (*pattern.patterns, *pattern.kwd_patterns):
            yield from _parts(part, UNKNOWN)


def _items(patterns: SequenceOf[ast.pattern], value: Value) -> list[Value]:
    """Return one value for each pattern of a sequence pattern. The values are unknown if `value` is not a sequence, or
    if it is a tuple of another length."""
    if type(value) is not Sequence or value.kind not in ("list", "tuple", "size"):
        return [UNKNOWN] * len(patterns)
    star = next((i for i, part in enumerate(patterns) if isinstance(part, ast.MatchStar)), None)
    items = value.items
    more = -2 if items is None else len(items) - len(patterns)
    if items is not None and star is None and more == 0:
        return [*items]
    if items is not None and star is not None and more >= -1:
        end = star + more + 1
        return [*items[:star], sequence("list", items[star:end]), *items[end:]]
    if items is not None and value.kind != "list":
        return [UNKNOWN] * len(patterns)
    # The length is not known, or the list has other items by now.
    return [sequence("list", [value.elem]) if i == star else value.elem for i in range(len(patterns))]
