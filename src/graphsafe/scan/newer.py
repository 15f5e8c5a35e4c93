"""Syntax newer than the running Python, rewritten in place to older syntax of the same length.

libcst's own parser reads grammar that the running interpreter does not. Each construct is replaced by text with as many
lines and columns, so that every position in what remains is the position in the user's file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def rewrite(text: str) -> str | None:
    """The text without type aliases, type parameters, `except*` and nested quotes in f-strings.

    None where libcst cannot parse it either, or where there is nothing of the kind to rewrite.
    """
    import libcst
    from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

    try:
        wrapper = MetadataWrapper(libcst.parse_module(text.encode("utf-8")), unsafe_skip_copy=True)
    except (libcst.ParserSyntaxError, RecursionError, UnicodeError):
        return None
    spans = wrapper.resolve(ByteSpanPositionProvider)
    data = bytearray(text.encode("utf-8"))
    changed = False
    for node, start, end, fill in _replacements(wrapper.module, spans):
        old = data[start:end]
        data[start:end] = _same_shape(bytes(old), fill)
        changed = changed or bytes(data[start:end]) != bytes(old)
        del node
    return data.decode("utf-8") if changed else None


def _replacements(module: Any, spans: Any) -> Iterator[tuple[Any, int, int, bytes]]:
    import libcst

    stack = [module]
    while stack:
        node = stack.pop()
        span = spans.get(node)
        if isinstance(node, libcst.TypeAlias):
            yield node, span.start, span.start + span.length, b"pass"
            continue
        if isinstance(node, libcst.TypeParameters):
            yield node, span.start, span.start + span.length, b""
            continue
        if isinstance(node, libcst.ExceptStarHandler):
            yield node, span.start + 6, _type_start(node, spans), b""
        if isinstance(node, libcst.FormattedString):
            nested = [part for part in node.expression_parts] if hasattr(node, "expression_parts") else []
            if any(isinstance(part, libcst.FormattedStringExpression) for part in [*nested, *node.parts]):
                yield from _plain_string(node, spans)
                continue
        stack.extend(node.children)


def _type_start(node: Any, spans: Any) -> int:
    if node.type is not None:
        return int(spans[node.type].start)
    return int(spans[node].start) + 6


def _plain_string(node: Any, spans: Any) -> Iterator[tuple[Any, int, int, bytes]]:
    """An f-string as a call of its first value's expression would be longer; a tuple of its values never is."""
    import libcst

    span = spans[node]
    start, end = span.start, span.start + span.length
    cursor = start
    opened = False
    for part in node.parts:
        if not isinstance(part, libcst.FormattedStringExpression):
            continue
        inner = spans[part.expression]
        yield part, cursor, inner.start, b"" if opened else b"("
        cursor = inner.start + inner.length
        # The closing brace is at least one byte: room for the comma that separates the values.
        yield part, cursor, cursor + 1, b","
        cursor += 1
        opened = True
    yield node, cursor, end, b")" if opened else b"()"


def _same_shape(old: bytes, fill: bytes) -> bytes:
    """`fill`, padded with blanks to the bytes of `old`; its line breaks stay, escaped inside the statement."""
    blank = bytearray(b" " * len(old))
    blank[: len(fill)] = fill
    for i, byte in enumerate(old):
        if byte == 0x0A and i >= len(fill):
            blank[i] = 0x0A
            if i > len(fill):
                blank[i - 1] = 0x5C
    return bytes(blank)
