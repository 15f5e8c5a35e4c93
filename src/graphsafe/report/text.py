"""Text for a terminal: printable characters, width in cells, wrapping, and colour."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphsafe.report.model import Bucket, DeviceResult, Level

Paint = Callable[[str, str], str]
"""Colours a string, as in `paint("bold red", text)`. Without colour, it returns the string unchanged."""

_UNPRINTABLE = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Unicode's categories of control, format, surrogate and line-separating characters."""
_LINE_COMMAND = re.compile(r"^((?:\033\[[\d;]*m|[^\S\n])*)(?=::[^\n]*::)", re.MULTILINE)
"""Matches the beginning of a line that GitHub's runner would execute: `::name::`, even after white space."""
_INNER_COMMAND = re.compile(r"#(?=#\w*\[)")
"""Matches the beginning of `##[name]`, `##vso[…]` and `##teamcity[…]`.

GitHub, Azure and TeamCity execute such a command anywhere in a line.
"""
BIDI_CONTROLS = "\u202a-\u202e\u2066-\u2069"
"""The characters that change the direction of writing, in the form for the inside of `[…]` in a regular expression.
They would hide text on a terminal."""
INVISIBLE = "&#8288;"
"A word joiner in HTML and XML. It is not shown, and no line breaks at it."
COLOURS = {"red": 196, "green": 28, "yellow": 130, "blue": 27, "cyan": 30}
"""Numbers of colours in a terminal's palette of 256. They contrast about equally with black and with white."""
_CODES = {"bold": "1", "dim": "2", **{name: f"38;5;{number}" for name, number in COLOURS.items()}}


def painter(colour: bool) -> Paint:
    def paint(style: str, text: str) -> str:
        codes = ";".join(_CODES[word] for word in style.split())
        return f"\033[{codes}m{text}\033[0m" if text else text

    return paint if colour else lambda style, text: text


def printable(text: str) -> str:
    """Return one line that cannot move a terminal's cursor, change its colours, or change the direction of writing."""
    line = text.expandtabs(4)
    if line.isprintable():  # some characters of the excluded categories are allowed
        return line
    return "".join("?" if unicodedata.category(c) in _UNPRINTABLE else c for c in line)


def without_commands(text: str, mark: str = "\\") -> str:
    """Insert `mark` wherever a CI system would execute a part of the output of a job as a command."""
    return _INNER_COMMAND.sub(lambda _: f"#{mark}", _LINE_COMMAND.sub(lambda found: f"{found[1]}{mark}", text))


def cells(text: str) -> int:
    """Return the number of columns that a printable string takes: two for a wide character, none for a combining
    character."""
    return len(text) if text.isascii() else sum(map(_cells, text))


@functools.lru_cache(maxsize=4096)
def _cells(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def wrapped(text: str, width: int, first: str = "", rest: str = "", *, cut: bool = True) -> list[str]:
    """Return lines of at most `width` cells.

    The first line begins with `first`, and the following lines begin with `rest`. Lines are broken at white space. A
    word that is too long for a line is cut, unless `cut` is False.
    """
    lines: list[str] = []
    line, empty = first, True
    for word in printable(" ".join(text.split())).split(" "):
        if not empty and cells(line) + 1 + cells(word) <= width:
            line += f" {word}"
            continue
        if not empty or cells(line) + cells(word) > width >= cells(rest) + cells(word):
            lines.append(line.rstrip())
            line = rest
        while cut and (room := max(width - cells(line), 1)) < cells(word):
            head = _head(word, room)
            lines.append(line + head)
            line, word = rest, word[len(head) :]
        line, empty = line + word, False
    return [*lines, line]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A terminal for which text is laid out."""

    width: int
    "The number of cells in a line."
    paint: Paint

    @staticmethod
    def of(colour: bool, width: int) -> Sheet:
        return Sheet(max(width, 40), painter(colour))

    def wrapped(self, text: str, first: str = "", rest: str = "") -> list[str]:
        return wrapped(text, self.width, first, rest)


def chained(parts: Sequence[str], width: int, first: str, rest: str) -> list[str]:
    """Return `a -> b -> c` on lines of at most `width` cells. Lines are broken before arrows if possible."""
    lines = wrapped(parts[0], width, first, rest, cut=False)
    for part in parts[1:]:
        if cells(lines[-1]) + len(" -> ") + cells(printable(part)) <= width:
            lines[-1] += f" -> {printable(part)}"
        else:
            lines += wrapped(part, width, f"{rest}-> ", f"{rest}   ", cut=False)
    return lines


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 error`, `2 errors`, `3 copies`, `4 replays`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun[:-1]}ies" if noun.endswith(("py", "ry", "ty")) else f"{number} {noun}s"


def first_line(text: str) -> str:
    """Return the first line of an error message. CUDA's messages end with general advice."""
    return text.strip().split("\n")[0].strip()


def bucket_name(axes: Mapping[str, Any]) -> str:
    """Return a bucket's name: `batch=4 q_len=1`."""
    return " ".join(f"{axis}={value}" for axis, value in axes.items())


def device_name(device: DeviceResult) -> str:
    """Return a device's name: `cuda:1`, `rank 1 on cuda:1`."""
    return device.device if device.rank is None else f"rank {device.rank} on {device.device}"


def part_name(device: DeviceResult, bucket: Bucket) -> str:
    """Return the name of a bucket of a device, or of the device if it has no buckets: `cuda:1 batch=4`, `cuda:1`."""
    return f"{device_name(device)} {bucket_name(bucket.axes)}".rstrip()


def level_counts(levels: Sequence[Level]) -> list[str]:
    """Return the number of findings of each level, the most severe first: `2 errors`, `1 note`."""
    return [count(levels.count(level), level) for level in ("error", "warning", "note") if level in levels]


def listed(parts: Iterable[str], most: int = 12) -> str:
    """Join strings: `a`, `a and b`, `a, b and c`. If there are more than `most`: `a, b, c and 4 more`."""
    shown = list(parts)
    last = [f"{len(shown) - most} more"] if len(shown) > most else shown[-1:]
    rest = shown[:most] if len(shown) > most else shown[:-1]
    return " and ".join([", ".join(rest), *last]) if rest else "".join(last)


def _head(word: str, room: int) -> str:
    """Return the longest beginning of the word that fits. It has at least one character."""
    if word.isascii():
        return word[: max(room, 1)]
    taken = 0
    for at, character in enumerate(word):
        taken += _cells(character)
        if taken > room:
            return word[: max(at, 1)]
    return word


def bytes_text(number: int) -> str:
    size = float(number)
    for unit in ("bytes", "KiB", "MiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
