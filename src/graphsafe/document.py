"""Checks the values in a configuration or a rule file. An error names the file and the key."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from graphsafe.errors import RequestError, nearest

Word = TypeVar("Word", bound=str)
Convert = Callable[["Document", str, object], Any]
"Takes the full name of a key and its value, and returns the checked value."

_CONTROL = re.compile(r"[^\t\n\r\x20-\x7e\xa0-\U0010ffff]")
"Matches control characters. No path needs control characters, and printing them could move the cursor."


@dataclass(frozen=True, slots=True)
class Document:
    """A file whose content is checked.

    Every method takes the full name of a key and its value, and raises `failure` with one line.
    """

    source: str
    failure: type[RequestError]
    prefix: str = ""
    "The beginning of every key in an error message, such as `tool.graphsafe.`."

    def error(self, key: str, reason: str) -> RequestError:
        where = f"{self.prefix}{key}".rstrip(".")
        return self.failure(f"{self.source}: {where}: {reason}" if where else f"{self.source}: {reason}")

    def read(self, key: str, value: object, converts: Mapping[str, Convert], required: Sequence[str] = ()) -> Any:
        """Check a table with known keys, and return it with checked values. `key` is "" for the whole file."""
        within = f"{key}." if key else ""
        read = {}
        for name, item in self.table(key, value).items():
            if name not in converts:
                raise self.error(f"{within}{name}", "unknown key" + nearest(str(name), converts))
            read[name] = converts[name](self, within + name, item)
        for name in required:
            if name not in read:
                raise self.error(f"{within}{name}", "missing")
        return read

    def table(self, key: str, value: object) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self.error(key, f"expected a table, got {_shown(value)}")
        for name in value:
            if not isinstance(name, str) or not name.strip() or _CONTROL.search(name):
                raise self.error(key, f"expected strings as keys, got {_shown(name)}")
        return value

    def items(self, key: str, value: object) -> list[tuple[str, Any]]:
        """Check a list, and return its items with their full names."""
        if not isinstance(value, list):
            raise self.error(key, f"expected a list, got {_shown(value)}")
        return [(f"{key}[{i}]", item) for i, item in enumerate(value)]

    def text(self, key: str, value: object) -> str:
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, f"expected a string, got {_shown(value)}")
        if _CONTROL.search(value):
            raise self.error(key, f"contains a control character: {_shown(value)}")
        return value

    def line(self, key: str, value: object) -> str:
        text = self.text(key, value).strip()
        if "\n" in text:
            raise self.error(key, "expected one line")
        return text

    def texts(self, key: str, value: object) -> tuple[str, ...]:
        return tuple(self.text(name, item) for name, item in self.items(key, value))

    def number(self, key: str, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(key, f"expected a whole number, got {_shown(value)}")
        if abs(value) >= 2**63:
            raise self.error(key, "expected a number of at most 63 bits")
        return value

    def boolean(self, key: str, value: object) -> bool:
        if not isinstance(value, bool):
            raise self.error(key, f"expected true or false, got {_shown(value)}")
        return value

    def one_of(self, key: str, value: object, words: Sequence[Word]) -> Word:
        for word in words:
            if value == word:
                return word
        raise self.error(key, f"expected one of {', '.join(words)}, got {_shown(value)}")


def word_of(words: Sequence[str]) -> Convert:
    """Return a check that accepts only these words."""
    return lambda doc, key, value: doc.one_of(key, value, words)


def list_of(convert: Convert) -> Convert:
    """Return a check for a list whose items pass `convert`. The check returns the items as a tuple."""
    return lambda doc, key, value: tuple(convert(doc, *item) for item in doc.items(key, value))


def table_of(convert: Convert) -> Convert:
    """Return a check for a table with any keys, whose values pass `convert`."""
    return lambda doc, key, value: {
        name: convert(doc, f"{key}.{name}", item) for name, item in doc.table(key, value).items()
    }


def number_from(least: int) -> Convert:
    """Return a check for a whole number that is at least `least`."""

    def check(doc: Document, key: str, value: object) -> int:
        number = doc.number(key, value)
        if number < least:
            raise doc.error(key, f"expected a number from {least} on")
        return number

    return check


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number with thousands of digits, or lists that are nested too deeply
        return f"a {type(value).__name__} too large to show"
    return text if len(text) <= 60 else text[:57] + "..."
