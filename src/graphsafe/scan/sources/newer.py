"""Syntax newer than the running Python, rewritten in place to older syntax of the same length.

libcst's own parser reads grammar that the running interpreter does not. Each construct is replaced by text with as many
lines and columns, so that every position in what remains is the position in the user's file.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import libcst

Patch = tuple[int, int, bytes]
"First byte, byte after the last, and what stands there instead, followed by blanks."


def rewrite(text: str) -> str | None:
    """The text without type aliases, type parameters, `except*`, template strings, and what old f-strings cannot hold.

    None where libcst cannot parse it either, or where there is nothing of the kind to rewrite.
    """
    import libcst
    from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

    try:
        data = bytearray(text.encode("utf-8"))
        wrapper = MetadataWrapper(libcst.parse_module(bytes(data)), unsafe_skip_copy=True)
        patches = list(_patches(wrapper.module, wrapper.resolve(ByteSpanPositionProvider), bytes(data)))
    except (libcst.ParserSyntaxError, RecursionError, UnicodeError):
        return None
    for start, end, fill in patches:
        data[start:end] = _same_shape(bytes(data[start:end]), fill)
    return data.decode("utf-8") if patches else None


def _patches(module: libcst.Module, spans: Mapping[Any, Any], data: bytes) -> Iterator[Patch]:
    stack: list[Any] = [module]
    while stack:
        node = stack.pop()
        kind = type(node).__name__
        if kind == "TypeAlias":
            yield (*_range(node, spans), b"pass")
        elif kind == "TypeParameters":
            yield (*_range(node, spans), b"")
        elif kind in ("FormattedString", "TemplatedString", "ConcatenatedString"):
            start, end = _range(node, spans)
            values = list(_values(node))
            if _is_old(data[start:end]):
                continue
            yield from _as_tuple(start, end, [_range(value, spans) for value in values])
            stack.extend(values)
        else:
            if kind == "ExceptStarHandler":
                star = data.index(b"*", _range(node, spans)[0])
                yield star, star + 1, b""
            stack.extend(node.children)


def _range(node: Any, spans: Mapping[Any, Any]) -> tuple[int, int]:
    span = spans[node]
    return span.start, span.start + span.length


def _values(node: Any) -> Iterator[Any]:
    """The expressions in a string, or in strings that stand side by side, from the left."""
    if type(node).__name__ == "ConcatenatedString":
        yield from _values(node.left)
        yield from _values(node.right)
    for part in getattr(node, "parts", ()):
        if hasattr(part, "expression"):
            yield part.expression


def _is_old(string: bytes) -> bool:
    """Whether the running Python can parse a string as it is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(b"(" + string + b")", mode="eval")
    except (SyntaxError, ValueError):
        return False
    return True


def _as_tuple(start: int, end: int, values: list[tuple[int, int]]) -> Iterator[Patch]:
    """Only the string's values, which is what hot code does with it: `(a,b,)` is never longer than `f"{a}{b}"`."""
    cursor, fill = start, b"("
    for first, last in values:
        yield cursor, first, fill
        cursor, fill = last, b","
    # After the last value there are a brace and a quote at least.
    yield cursor, end, fill + b")"


def _same_shape(old: bytes, fill: bytes) -> bytes:
    """`fill` and blanks, as long as `old`; line breaks stay, behind a backslash since they stand inside a statement."""
    new = bytearray(fill.ljust(len(old)))
    for at, byte in enumerate(old):
        if byte == 0x0A:
            new[at] = 0x0A
            if at > len(fill):
                new[at - 1] = 0x5C
    return bytes(new)
