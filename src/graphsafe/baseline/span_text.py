"""The code under a finding in a form that formatters do not change: on one line, with normalised spaces and quotes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from graphsafe.report.model import Location

MOST = 100
"The largest number of characters; longer code is replaced by its beginning and a hash."
_STRING_OR_COMMENT = re.compile(
    r"""(?P<string>\"{3}(?s:.)*?\"{3}|'{3}(?s:.)*?'{3}|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")|\#[^\n]*"""
)
_SPACE = re.compile(r"\\?\s+")
_TRAILING_COMMA = re.compile(r",(?=[)\]}])")


def span_text(location: Location, lines: Sequence[str] | None) -> str:
    """Return the code; empty if the place cannot be read."""
    if lines is None or not 0 < location.line <= location.end_line <= len(lines):
        return ""
    spanned = [*lines[location.line - 1 : location.end_line]]
    spanned[-1] = spanned[-1][: location.end_column - 1]
    spanned[0] = spanned[0][location.column - 1 :]
    return shortened(normalised("\n".join(spanned)))


def normalised(code: str) -> str:
    """Remove comments, line breaks, space around operators and brackets, and commas before a closing bracket."""
    parts: list[str] = []
    end = 0
    for found in _STRING_OR_COMMENT.finditer(code):
        parts += [_tight(code[end : found.start()]), _requoted(found["string"] or "")]
        end = found.end()
    parts.append(_tight(code[end:]))
    return _TRAILING_COMMA.sub("", "".join(parts)).strip()


def shortened(text: str) -> str:
    """Return one line of printable characters of bounded length that still tells texts apart."""
    line = "".join(character if character.isprintable() else "?" for character in text)
    if len(line) <= MOST and line == text:
        return line
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{line[: MOST - 12]}... {digest}"


def _tight(code: str) -> str:
    """Remove all space except between words."""
    return re.sub(r"(?<!\w) | (?!\w)", "", _SPACE.sub(" ", code))


def _requoted(string: str) -> str:
    """Write `'a'` as `"a"` if it has no quote or backslash inside."""
    inside = string[1:-1]
    return f'"{inside}"' if string[:1] == "'" and not re.search(r"""['"\\\n]""", inside) else string
