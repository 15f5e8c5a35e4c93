"""Matches paths with the patterns of .gitignore files.

Each pattern is checked by itself, so that an invalid pattern does not disable the other patterns. All patterns of a
file form one automaton. Its state is a number with one bit for each position in each pattern. A character of a path
moves all bits at once, so the time to match a path depends only on its length.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

MAX_SIZE = 100_000
"The largest number of characters in all patterns of a file. A bracket counts as a hundred characters."
_TOKEN = re.compile(
    r"""
      (?P<stars>\*+)
    | \\ (?P<escaped>.)
    | \[ (?P<inside> [!^]? \]? (?: \[:[a-z]+:\] | \\. | [^\]\\] )* ) \]
    | (?P<any>\?)
    | (?P<plain>[^\\\[])
    """,
    re.VERBOSE | re.DOTALL,
)
_MEMBER = re.compile(r"\[:(?P<kind>[a-z]+):\]|\\?(?P<low>.)(?:-\\?(?P<high>.))?", re.DOTALL)
_KINDS = {
    "alnum": r"A-Za-z0-9",
    "alpha": r"A-Za-z",
    "blank": r" \t",
    "cntrl": r"\0-\x1f\x7f",
    "digit": r"0-9",
    "graph": r"!-~",
    "lower": r"a-z",
    "print": r" -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t-\r",
    "upper": r"A-Z",
    "xdigit": r"0-9A-Fa-f",
}


class _NoPatternError(ValueError):
    """Raised for a line that no path could match."""


def _bracket(text: str) -> re.Pattern[str]:
    """Return an expression for a set of characters in brackets: `[a-z]`."""
    is_negated = text[:1] in ("!", "^")
    members = "/" if is_negated else ""  # no bracket stands for a slash
    for member in _MEMBER.finditer(text, int(is_negated)):
        if member["kind"] is not None:
            if member["kind"] not in _KINDS:
                raise _NoPatternError
            members += _KINDS[member["kind"]]
            continue
        low, high = member["low"], member["high"] or member["low"]
        if low > high:
            raise _NoPatternError
        members += f"{re.escape(low)}-{re.escape(high)}"
    return re.compile(f"[{'^' * is_negated}{members}]" if members else "(?!)")


_Place = str | re.Pattern[str] | None
"One element of a pattern. It matches a given character, one from a bracket, or any character within a name (None)."


@dataclass(slots=True)
class _Pattern:
    """The pattern of one line: the characters of a path in order, and the positions at which further characters may be
    inserted."""

    places: list[_Place] = field(default_factory=list)
    names_before: set[int] = field(default_factory=set)
    "Positions before which folders may be inserted: `**/`."
    more_before: set[int] = field(default_factory=set)
    "Positions before which further characters of a name may be inserted: `*`."
    is_negated: bool = False
    is_for_folders: bool = False

    @classmethod
    def parsed(cls, line: str) -> _Pattern | None:
        """Return the pattern of a line, or None for a comment or a blank line. Raises _NoPatternError."""
        text = _without_last_spaces(line)
        if not text or text.startswith("#"):
            return None
        pattern = cls(is_negated=text.startswith("!"), is_for_folders=text.endswith("/"))
        text = text.removeprefix("!").removesuffix("/")
        if "/" not in text:
            text = f"**/{text}"
        names = text.removeprefix("/").split("/")
        for number, name in enumerate(names, start=1):
            is_last = number == len(names)
            if name == "**":
                pattern.names_before.add(len(pattern.places))
            if name != "**" or is_last:
                pattern._add(name)
                pattern.places += [] if is_last else ["/"]
        return pattern

    def _add(self, name: str) -> None:
        end, start = 0, len(self.places)
        for token in _TOKEN.finditer(name):
            if token.start() != end:
                break
            end = token.end()
            if token["stars"]:
                self.more_before.add(len(self.places))
            elif token["inside"] is not None:
                self.places.append(_bracket(token["inside"]))
            else:
                self.places.append(token["escaped"] or token["plain"] or None)
        if end != len(name) or not name:
            raise _NoPatternError
        if len(self.places) == start:  # a part made only of stars must match at least one character
            self.places.append(None)


def _without_last_spaces(line: str) -> str:
    text = line.rstrip(" ")
    is_escaped = (len(text) - len(text.rstrip("\\"))) % 2 == 1
    return text + line[len(text) : len(text) + is_escaped]


class IgnorePatterns:
    """The patterns of one file. The last matching pattern decides. Everything in an ignored folder is ignored."""

    def __init__(self, patterns: Sequence[_Pattern]) -> None:
        self._plain: dict[str, list[int]] = defaultdict(list)
        self._brackets: dict[re.Pattern[str], list[int]] = defaultdict(list)
        lists: list[list[int]] = [[] for _ in range(7)]
        any_in_name, starts, loops, boundaries, ends, folder_ends, negated = lists
        width = 0
        for pattern in patterns:
            starts.append(width)
            boundaries += [width + place for place in pattern.names_before]
            loops += [width + place for place in pattern.more_before]
            for number, place in enumerate(pattern.places, start=width + 1):
                if place is None:
                    any_in_name.append(number)
                elif isinstance(place, str):
                    self._plain[place].append(number)
                else:
                    self._brackets[place].append(number)
            width += len(pattern.places) + 1
            (folder_ends if pattern.is_for_folders else ends).append(width - 1)
            negated += [width - 1] if pattern.is_negated else []
        self._any_in_name, self._loops, self._boundaries = _bits(any_in_name), _bits(loops), _bits(boundaries)
        self._file_ends, self._folder_ends, self._negated = _bits(ends), _bits(ends + folder_ends), _bits(negated)
        self._start = _bits(starts)
        self._arriving = lru_cache(maxsize=1024)(self._places_of)
        self._last = ("", self._start, False)
        "The last folder, the positions that were reached after its path, and whether it is ignored."

    def match(self, path: str, is_folder: bool = False) -> bool | None:
        """Return True if a path is ignored, False if a `!` includes it again, and None otherwise.

        The path is relative to the folder of the file.
        """
        folder, slash, name = path.rpartition("/")
        at, is_ignored = self._inside(folder + slash)
        return True if is_ignored else self._verdict(self._moved(at, name)[0], is_folder)

    def _inside(self, folder: str) -> tuple[int, bool]:
        """Return the positions that are reached after a folder's path and its slash, and whether the folder is ignored.

        The last result is kept, because a walk through a folder needs it again for each file.
        """
        known, at, is_ignored = self._last
        if not folder.startswith(known):
            known, at, is_ignored = "", self._start, False
        for name in folder[len(known) :].split("/")[:-1]:
            at, within = self._moved(at, name)
            is_ignored = is_ignored or self._verdict(at, True) is True
            at = at << 1 & self._arriving("/") | within
        self._last = (folder, at, is_ignored)
        return at, is_ignored

    def _moved(self, at: int, name: str) -> tuple[int, int]:
        """Return the positions that are reached after a name, and the positions that are reached again after the next
        slash."""
        loops, boundaries, within = self._loops, self._boundaries, 0
        for character in name:
            within |= at & boundaries
            at = at << 1 & self._arriving(character) | at & loops
        return at, within

    def _verdict(self, at: int, is_folder: bool) -> bool | None:
        last = (at & (self._folder_ends if is_folder else self._file_ends)).bit_length()
        return None if last == 0 else not self._negated >> (last - 1) & 1

    def _places_of(self, character: str) -> int:
        """Return the positions that a character reaches."""
        plain = self._plain.get(character, [])
        if character == "/":
            return _bits(plain)
        held = (number for one, numbers in self._brackets.items() if one.match(character) for number in numbers)
        return _bits([*plain, *held]) | self._any_in_name


def read_patterns(lines: Sequence[str]) -> tuple[IgnorePatterns, list[tuple[int, str]]]:
    """Return the valid patterns, and the line number (from 1) and the mistake of each invalid pattern."""
    good: list[_Pattern] = []
    faults: list[tuple[int, str]] = []
    size = 0
    for number, line in enumerate(lines, start=1):
        try:
            pattern = _Pattern.parsed(line)
        except _NoPatternError:
            faults.append((number, f"not a pattern: {line[:200]!r}"))
            continue
        if pattern is None:
            continue
        size += len(pattern.places) + 1 + 99 * sum(isinstance(place, re.Pattern) for place in pattern.places)
        if size > MAX_SIZE:
            faults.append((number, f"patterns of more than {MAX_SIZE} characters are not followed"))
            break
        good.append(pattern)
    return IgnorePatterns(good), faults


def problem_of(pattern: str) -> str | None:
    """Return why a pattern is ignored, or None if it is valid, a comment or blank."""
    faults = read_patterns([pattern])[1]
    return faults[0][1] if faults else None


def _bits(numbers: Sequence[int]) -> int:
    """Return the number whose set bits are `numbers`."""
    held = bytearray(max(numbers, default=-1) // 8 + 1)
    for number in numbers:
        held[number // 8] |= 1 << number % 8
    return int.from_bytes(held, "little")
