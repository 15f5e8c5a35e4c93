"""The file of a baseline. It is sorted TOML with one block per finding, so that people can edit it and git can merge
it."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from graphsafe.config import read_toml
from graphsafe.document import Convert, Document, list_of, number_from, word_of
from graphsafe.errors import RequestError
from graphsafe.files import from_here, write_atomically
from graphsafe.report.model import Confidence


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a finding. It has no line number, so that code above the finding may change."""

    path: str
    "The path from the project root, with forward slashes."
    function: str
    """The function's qualified name. It is "" at module level."""
    code: str
    text: str
    "The code of the finding, normalised so that a formatter does not change it."


@dataclass(frozen=True, slots=True)
class Entry:
    """Up to `count` findings with one identity."""

    identity: Identity
    count: int = 1
    confidence: Confidence | None = None
    "`possible` for a finding that only a scan with `--confidence possible` reports, otherwise None."
    owner: str | None = None
    reason: str | None = None
    expires: datetime.date | None = None
    "The last day on which the entry is valid."
    line: int = 1
    "The line of the file at which the entry begins."

    def is_expired(self, today: datetime.date) -> bool:
        return self.expires is not None and today > self.expires


NAME = "graphsafe-baseline.toml"
"The name of the file, which is in the folder of the configuration."
VERSION = 1
_HEAD = f"""\
# Findings that a scan leaves out. `graphsafe scan --write-baseline` writes this file anew; it keeps owner, reason and
# expires (a date: from the next day on the finding is reported again).
version = {VERSION}
"""
_BLOCK = re.compile(r"^[ \t]*\[\[[ \t]*finding[ \t]*\]\]", re.MULTILINE)


class BaselineError(RequestError):
    """Raised if the file is invalid or has an unknown version. The message is one line with the file, the key and the
    reason."""


def read_baseline(path: Path) -> list[Entry] | None:
    """Return the entries of a baseline, or None if the file does not exist. Raises BaselineError."""
    shown = from_here(str(path))
    table = read_toml(path, BaselineError)
    if table is None:
        return None
    version = table.get("version")
    if version != VERSION:
        raise BaselineError(
            f"{shown}: a baseline of version {version}, but this graphsafe reads version {VERSION}"
            if isinstance(version, int)
            else f"{shown}: version: missing, so this is not a baseline"
        )
    read = Document(shown, BaselineError).read("", table, {"version": Document.number, "finding": list_of(_entry)})
    return _with_lines(read.get("finding", ()), path)


def write_baseline(path: Path, entries: Iterable[Entry]) -> None:
    """Write a baseline, whose content does not depend on the order of the entries. Raises BaselineError if the file
    cannot be written."""
    try:
        write_atomically(path, "\n".join([_HEAD, *sorted(map(_block, entries))]))
    except OSError as error:
        raise BaselineError(f"{from_here(str(path))}: {error.strerror}") from None


def _block(entry: Entry) -> str:
    at = entry.identity
    values: Mapping[str, str | int | datetime.date | None] = {
        "path": at.path,
        "function": at.function or None,
        "code": at.code,
        "text": at.text,
        "count": entry.count if entry.count > 1 else None,
        "confidence": entry.confidence,
        "owner": entry.owner,
        "reason": entry.reason,
        "expires": entry.expires,
    }
    lines = [f"{key} = {_value(value)}\n" for key, value in values.items() if value is not None]
    return "".join(["[[finding]]\n", *lines])


def _value(value: str | int | datetime.date) -> str:
    """Return a value as TOML. A JSON string is a valid TOML string, except that TOML requires an escape for DEL."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    return str(value)


def _with_lines(entries: Sequence[Entry], path: Path) -> list[Entry]:
    text = path.read_text(encoding="utf-8")
    starts = [text.count("\n", 0, found.start()) + 1 for found in _BLOCK.finditer(text)]
    if len(starts) != len(entries):  # the file has another style, or a reason contains a string that looks like a block
        return list(entries)
    return [replace(entry, line=line) for entry, line in zip(entries, starts, strict=True)]


def _entry(document: Document, key: str, value: object) -> Entry:
    read: dict[str, Any] = document.read(key, value, _KEYS, required=("path", "code", "text"))
    identity = Identity(read.pop("path"), read.pop("function", ""), read.pop("code"), read.pop("text"))
    return Entry(identity, **read)


def _any_text(document: Document, key: str, value: object) -> str:
    """Check a string. It may be empty, because a finding may be about a whole file."""
    return value if value == "" else document.text(key, value)


def _date(document: Document, key: str, value: object) -> datetime.date:
    if type(value) is datetime.date:
        return value
    try:
        return datetime.date.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise document.error(key, "expected a date such as 2027-03-31") from None


_KEYS: Mapping[str, Convert] = {
    "path": Document.text,
    "function": Document.text,
    "code": Document.text,
    "text": _any_text,
    "count": number_from(1),
    "confidence": word_of(("possible",)),
    "owner": Document.line,
    "reason": Document.text,
    "expires": _date,
}
