"""Reads and writes graphsafe.lock. It is TOML, with one table for each target, kind of device and bucket, in a fixed
order."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from graphsafe.config import parsed_toml, read_toml
from graphsafe.document import Convert, Document, list_of, number_from, table_of, word_of
from graphsafe.errors import RequestError
from graphsafe.files import from_here, leads_out, write_atomically
from graphsafe.lock.proven import Key, Proven, Spread
from graphsafe.report.model import VERDICTS

NAME = "graphsafe.lock"
Lock = Mapping[str, Mapping[Key, Proven]]
"Target -> its entries. A target is named as in the configuration; a factory in a test file is named by the test's id."
_NUMBER = re.compile("[0-9]{1,18}")
_HEAD = (
    "# The proven results of each target. `graphsafe capture --all --locked` fails on regressions; `--update-lock`\n"
    "# rewrites this file, and `pytest --graphsafe-update` the results of test files. Commit it.\nversion = 1\n"
)


def read(path: Path) -> dict[str, dict[Key, Proven]]:
    """Return the targets of a lock. The result is empty if the file does not exist. Raises RequestError."""
    data = read_toml(path, RequestError)
    return {} if data is None else _checked(data, from_here(str(path)))


def parsed(text: str, path: str) -> dict[str, dict[Key, Proven]]:
    """Return the targets of a lock, given its content. Raises RequestError, whose message names `path`."""
    return _checked(parsed_toml(text, path, RequestError), path)


def _checked(data: Mapping[str, Any], path: str) -> dict[str, dict[Key, Proven]]:
    if data.get("version") != 1:
        made = "written by another version of graphsafe" if "version" in data else "has no version"
        raise RequestError(f"{path}: {made}; remove the file, and recreate it with --update-lock")
    targets = Document(path, RequestError).read("", data, {"version": Document.number, "target": _targets})
    found: dict[str, dict[Key, Proven]] = targets.get("target", {})
    return found


def check_place(path: Path) -> None:
    """Raise RequestError if the lock is a link to another folder, because a repository may contain such a link."""
    if leads_out(path, path.parent):
        raise RequestError(f"{from_here(str(path))}: points outside the project; remove the link")


def write(path: Path, lock: Lock) -> None:
    """Write a lock. Raises RequestError if the file cannot be written."""
    check_place(path)
    try:
        write_atomically(path, text_of(lock))
    except OSError as error:
        raise RequestError(f"{from_here(str(path))}: cannot be written: {error.strerror}") from None


def text_of(lock: Lock) -> str:
    """Return the lock as TOML. Equal locks give equal files."""
    parts = [_HEAD]
    for name in sorted(lock):
        for entry in sorted(lock[name].values(), key=_place):
            table = {**asdict(entry), "bucket": entry.bucket or None, "nodes": dict(sorted(entry.nodes.items()))}
            lines = [f"{key} = {_value(value)}" for key, value in table.items() if value is not None]
            parts.append("\n".join([f"[[target.{_key(name)}]]", *lines]) + "\n")
    return "\n".join(parts)


def _place(entry: Proven) -> tuple[Any, ...]:
    """Return a sort key that compares the numbers of buckets: `batch=2` comes before `batch=16`."""
    axes = [(*part.partition("="), _NUMBER.fullmatch(part.partition("=")[2])) for part in entry.bucket.split()]
    numbers = [(axis, not number, int(value) if number else 0, value) for axis, _, value, number in axes]
    return entry.device, -1 if entry.rank is None else entry.rank, numbers


def _targets(document: Document, key: str, value: object) -> dict[str, dict[Key, Proven]]:
    found: dict[str, dict[Key, Proven]] = {}
    for name, entries in table_of(list_of(_entry))(document, key, value).items():
        found[name] = {}
        for entry in entries:
            if entry.key in found[name]:  # a merge may keep both sides
                rank = None if entry.rank is None else f"rank {entry.rank}"
                which = ", ".join(filter(None, (entry.device, entry.bucket, rank)))
                raise document.error(f"{key}.{name}", f"several entries for {which}; keep one")
            found[name][entry.key] = entry
    return found


def _entry(document: Document, key: str, value: object) -> Proven:
    return Proven(**document.read(key, value, _KEYS, required=("device", "verdict", "nodes")))


def _measure(document: Document, key: str, value: object) -> float:
    number = value if isinstance(value, float) else document.number(key, value)
    if not 0 <= number < math.inf:
        raise document.error(key, "expected a finite number that is not negative")
    return number


def _spread(document: Document, key: str, value: object) -> Spread:
    names = ("median", "low", "high")
    return Spread(**document.read(key, value, dict.fromkeys(names, _measure), required=names))


_COUNT = number_from(0)
_KEYS: Mapping[str, Convert] = {
    "device": Document.line,
    "bucket": Document.line,
    "rank": _COUNT,
    "torch": Document.line,
    "verdict": word_of(VERDICTS),
    "nodes": table_of(_COUNT),
    "waits": _COUNT,
    "copies": _COUNT,
    "coverage": _measure,
    "pool_bytes": _COUNT,
    "speedup": _spread,
    "replay_ms": _spread,
}


def _key(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, str):  # JSON's strings are valid TOML, except for one character
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


def joined(before: Lock, now: Lock, removed: Sequence[str] = ()) -> dict[str, dict[Key, Proven]]:
    """Return the lock `before`, updated by the new proofs.

    New proofs of a target on a kind of device replace all old proofs of the target on this kind. So buckets that no
    longer exist are removed. Entries for other kinds of devices and for other targets are kept.
    """
    found = {name: dict(entries) for name, entries in before.items() if name not in removed}
    for name, entries in now.items():
        kinds = {device for device, _, _ in entries}
        kept = {key: entry for key, entry in found.get(name, {}).items() if entry.device not in kinds}
        found[name] = {**kept, **entries}
    return found
