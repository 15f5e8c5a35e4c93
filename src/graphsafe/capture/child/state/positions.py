"""Reads and sets the position of iterators: `itertools.count`, and those over lists, tuples, strings and ranges."""

from __future__ import annotations

import ast
import gc
import itertools
import types
from typing import Any

from graphsafe.capture.child.state.values import are_scalars

_SEQUENCES: tuple[Any, ...] = ([], (), "", "é", b"", range(0), range(1 << 70))
_OVER_SEQUENCES = tuple(type(iter(sequence)) for sequence in _SEQUENCES)
_UNORDERED: tuple[Any, ...] = ({}, {}.values(), {}.items(), set())
_OPAQUE = (
    *(types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType),
    *(type(iter(view)) for view in _UNORDERED),
    *(map, filter, zip, enumerate, reversed, type(reversed([])), type(iter(int, 1))),
    *(made for made in vars(itertools).values() if isinstance(made, type) and made is not itertools.count),
)


def is_count(kind: type) -> bool:
    return kind is itertools.count


def is_over_sequence(kind: type) -> bool:
    return kind in _OVER_SEQUENCES


def is_opaque(kind: type) -> bool:
    """Return whether objects of this kind have a position that cannot be read."""
    return kind in _OPAQUE


def count_text(counter: Any) -> str | None:
    """Return the text of a counter, such as `count(5)`; None if it counts in objects of another library."""
    return repr(counter) if are_scalars(gc.get_referents(counter)) else None


def count_from(text: str) -> Any:
    start, *step = ast.literal_eval(text.removeprefix("count").replace(")", ",)"))
    return itertools.count(start, *step)


def position_of(iterator: Any) -> int | None:
    """Return the number of elements taken; None at the end, where the iterator has dropped its sequence."""
    reported = iterator.__reduce__()
    return reported[2] if len(reported) > 2 else 0 if len(reported[1][0]) else None


def set_position(iterator: Any, position: int | None) -> None:
    if position is not None and position_of(iterator) is None:
        raise ValueError("it is used up")
    if position is not None:
        iterator.__setstate__(position)
