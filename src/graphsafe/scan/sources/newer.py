"""Rewrites syntax that is newer than the running Python to older syntax of the same length.

libcst's own parser accepts grammar that the running interpreter does not. Each construct is replaced by code with the
same number of lines and columns, so all other code stays at its position in the user's file.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import libcst

Patch = tuple[int, int, bytes]
"The first byte, the byte after the end, and the new code, which is padded with blanks."

MAX_BRACKETS = 100
"The largest nesting depth of brackets. libcst's memory grows with the square of this number."
MAX_PATTERNS = 12
"The largest number of brackets in the pattern of a `case`. libcst's time doubles with each bracket."
MAX_CHAIN = 1000
"""The largest number of successive tokens (names, strings, operators) without a comma among them. For `x[0][0]…`,
libcst's time grows with the cube of their number. For `not not …`, its stack grows with their number."""
MAX_ELIFS = 2000
_TOKEN = re.compile(
    r"""(?:#[^\n]*|\\\n)|\'\'\'(?:[^\\]|\\.)*?\'\'\'|\"\"\"(?:[^\\]|\\.)*?\"\"\"|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\""""
    r"""|\w+|[^\w\s]|\n""",
    re.DOTALL,
)
MAX_BEGINNINGS = 3
"The largest number of statements that are dropped from the end until libcst can parse the rest."
_STATEMENT = re.compile(r"[^\s#)\]}]")
"Matches lines at which a statement of the module may begin."
_BRACKET = re.compile(r"[()\[\]{}]")


def rewrite(text: str) -> str | None:
    """Rewrite type aliases, type parameters, `except*`, template strings, and f-strings with newer syntax.

    Return the new text. Return None if libcst cannot parse the code either, or if nothing needs to be rewritten.
    """
    if _is_too_deep(text):
        return None
    import libcst
    from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

    try:
        data = bytearray(text.encode("utf-8"))
        wrapper = MetadataWrapper(libcst.parse_module(bytes(data)), unsafe_skip_copy=True)
        patches = list(_patches(wrapper.module, wrapper.resolve(ByteSpanPositionProvider), bytes(data)))
    except (libcst.ParserSyntaxError, RecursionError, MemoryError, UnicodeError):
        return None
    for start, end, fill in patches:
        data[start:end] = _same_shape(bytes(data[start:end]), fill)
    return data.decode("utf-8") if patches else None


def rewrite_beginning(text: str, line: int) -> str | None:
    """Rewrite the statements before the first one that libcst cannot parse, and leave the rest unchanged.

    The running Python has reported newer syntax on `line`. After the rewriting, Python reports the position of the real
    mistake. Return None if libcst cannot parse more of the code than Python can, or if nothing needs to be rewritten.
    """
    if _is_too_deep(text):
        return None
    import libcst

    try:
        libcst.parse_module(text)
        return None
    except libcst.ParserSyntaxError as error:
        end = error.raw_line
    except (RecursionError, MemoryError, UnicodeError):
        return None
    lines = text.split("\n")
    starts = [number for number in range(line, min(end, len(lines))) if _STATEMENT.match(lines[number])]
    for start in reversed(starts[-MAX_BEGINNINGS:]):
        beginning = rewrite("\n".join([*lines[:start], ""]))
        if beginning is not None:
            return beginning + "\n".join(lines[start:])
    return None


def _is_too_deep(text: str) -> bool:
    """Return whether code is nested too deeply for libcst. libcst would then take minutes, or crash the process.

    Python itself parses at most 200 levels of brackets, and about as many levels of other constructs.
    """
    depths = [0]
    "For the module and for each open bracket, the number of tokens since the last comma."
    case, elifs = 0, 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        first = token[0]
        if first == "#" or token == "\\\n":
            continue
        if token in ("\n", ";"):
            if len(depths) == 1:
                depths[0] = case = 0
        elif token == ",":
            depths[-1] = 0
        elif token in "([{":
            depths.append(0)
            if len(depths) > MAX_BRACKETS or (case and len(depths) > MAX_PATTERNS):
                return True
        elif token in ")]}":
            if len(depths) > 1:
                depths.pop()
            depths[-1] += 1
        else:
            if first in "\"'" and len(depths) + _deepest(token) > MAX_BRACKETS:
                return True
            case |= token == "case"
            elifs += token == "elif"
            depths[-1] += 1
        if depths[-1] > MAX_CHAIN or elifs > MAX_ELIFS:
            return True
    return False


def _deepest(string: str) -> int:
    """Return the largest number of brackets that are open at once in a string. (The expressions of an f-string have
    brackets.)"""
    depth = deepest = 0
    for bracket in _BRACKET.findall(string):
        depth = depth + 1 if bracket in "([{" else max(depth - 1, 0)
        deepest = max(deepest, depth)
    return deepest


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
            ranges = [_range(value, spans) for value in values]
            quoted = _with_other_quotes(data[start:end], [(first - start, last - start) for first, last in ranges])
            if quoted is not None:
                yield start, end, quoted
                continue
            yield from _as_tuple(start, end, ranges)
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
    """Yield the expressions in a string, or in adjacent strings, from left to right."""
    if type(node).__name__ == "ConcatenatedString":
        yield from _values(node.left)
        yield from _values(node.right)
    for part in getattr(node, "parts", ()):
        if hasattr(part, "expression"):
            yield part.expression


def _is_old(string: bytes) -> bool:
    """Return whether the running Python can parse a string as it is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(b"(" + string + b")", mode="eval")
    except (SyntaxError, ValueError):
        return False
    return True


def _with_other_quotes(string: bytes, values: list[tuple[int, int]]) -> bytes | None:
    """Return an f-string with different quotes in its expressions, `f"{d['a']}"` for `f"{d["a"]}"`. Return None if
    something else in the string is new too."""
    for old, new in ((b'"', b"'"), (b"'", b'"')) if b"\n" not in string else ():
        other = bytearray(string)
        for first, last in values:
            other[first:last] = string[first:last].replace(old, new)
        if _is_old(bytes(other)):
            return bytes(other)
    return None


def _as_tuple(start: int, end: int, values: list[tuple[int, int]]) -> Iterator[Patch]:
    """Yield patches that replace a string by a tuple of its values, because the scan needs nothing else. The tuple
    `(a,b,)` is never longer than `f"{a}{b}"`."""
    cursor, fill = start, b"("
    for first, last in values:
        yield cursor, first, fill
        cursor, fill = last, b","
    # The string has room for this, because at least a brace and a quote follow the last value.
    yield cursor, end, fill + b")"


def _same_shape(old: bytes, fill: bytes) -> bytes:
    """Return `fill` padded with blanks to the length of `old`. Line breaks stay, each after a backslash, because they
    are inside a statement."""
    new = bytearray(fill.ljust(len(old)))
    for at, byte in enumerate(old):
        if byte == 0x0A:
            new[at] = 0x0A
            if at > len(fill):
                new[at - 1] = 0x5C
    return bytes(new)
