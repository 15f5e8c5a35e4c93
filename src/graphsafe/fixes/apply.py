"""Applies the fixes of findings to the files that they are in."""

from __future__ import annotations

import ast
import difflib
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from graphsafe.files import with_real_folder, write_atomically
from graphsafe.fixes.proposals import SAFE
from graphsafe.report.model import Edit, Finding, Report, unsuppressed
from graphsafe.scan.sources.source import Unreadable, editable_lines, read_bytes

MAX_ROUNDS = 10
"Scans after each other: a fix can make room for the next one, on the same line or around it."


@dataclass(frozen=True, slots=True)
class Fixed:
    """What became of the files."""

    first: Report
    "Of what was there."
    report: Report
    "Of what is left."
    files: Mapping[str, tuple[bytes, bytes]]
    "Before and after, by the paths that locations give."
    count: int
    "How many findings were fixed."
    failures: tuple[str, ...] = ()
    "What was not written, and why: a line each."


def fixable(report: Report, unsafe: bool) -> list[Finding]:
    """The findings that have edits of the wanted kind."""
    return [one for one in unsuppressed(report) if one.edits and (unsafe or one.data.get("edits") == SAFE)]


@dataclass(slots=True)
class _Files:
    """What the files hold now, and what they held first."""

    before: dict[str, bytes] = field(default_factory=dict)
    now: dict[str, bytes] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def fix_all(scan: Callable[[Mapping[Path, bytes]], Report], unsafe: bool) -> Fixed:
    """Apply fixes and scan again until none is left.

    `scan` is given what files hold in place of what is saved; nothing is written here.
    """
    files, count = _Files(), 0
    first = report = scan({})
    for _ in range(MAX_ROUNDS):
        done = _fix_once(fixable(report, unsafe), files)
        if not done:
            break
        count += done
        report = scan({with_real_folder(path): data for path, data in files.now.items()})
    changed = {path: (files.before[path], data) for path, data in files.now.items()}
    return Fixed(first, report, changed, count, tuple(f"{path}: {why}" for path, why in files.failures.items()))


def _fix_once(findings: Iterable[Finding], files: _Files) -> int:
    by_path: dict[str, list[Finding]] = {}
    for finding in findings:
        by_path.setdefault(finding.location.path, []).append(finding)
    count = 0
    for path, found in by_path.items():
        if path in files.failures:
            continue
        try:
            data = files.now.get(path) or read_bytes(path)
            fixed, number = apart(found)
            after = edited(data, fixed)
        except Unreadable as error:
            files.failures[path] = error.reason
            continue
        files.before.setdefault(path, data)
        files.now[path] = after
        count += number
    return count


def apart(findings: Iterable[Finding]) -> tuple[list[Edit], int]:
    """The edits of as many findings as do not touch each other's, from the top, and how many findings that are."""
    taken: list[Edit] = []
    count = 0
    for finding in findings:
        if not any(_overlap(edit, other) for edit in finding.edits for other in taken):
            taken += finding.edits
            count += 1
    return taken, count


def _overlap(one: Edit, other: Edit) -> bool:
    first, second = sorted((one, other), key=lambda edit: (edit.line, edit.column))
    return (second.line, second.column) < (first.end_line, first.end_column) or (
        (first.line, first.column) == (second.line, second.column)
    )


def edited(data: bytes, edits: Sequence[Edit]) -> bytes:
    """A file after edits; encoding and line ends stay. Raises Unreadable, also where no Python would be left."""
    encoding, lines, ends = editable_lines(data)
    newline = max(set(ends), key=ends.count) if ends else "\n"
    for edit in sorted(edits, key=lambda edit: (edit.line, edit.column), reverse=True):
        first, last = edit.line - 1, edit.end_line - 1
        text = edit.text.replace("\n", newline)
        lines[first] = lines[first][: edit.column - 1] + text + lines[last][edit.end_column - 1 :]
        del lines[first + 1 : last + 1]
        del ends[first:last]
    after = "".join(line + end for line, end in zip(lines, [*ends, ""], strict=True))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(after.replace("\r\n", "\n").replace("\r", "\n"))
        return after.encode(encoding)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(f"the fixes would not leave legal Python: {error}") from None


def write(fixed: Fixed) -> Sequence[str]:
    """Write the files; what could not be written, a line each."""
    failures = list(fixed.failures)
    for path, (_, after) in fixed.files.items():
        try:
            write_atomically(Path(path), after)
        except OSError as error:
            failures.append(f"{path}: {error.strerror}")
    return failures


def diff(fixed: Fixed) -> Iterator[bytes]:
    """The changes as a unified diff, which `git apply` and `patch` take, line by line."""
    for path, (before, after) in sorted(fixed.files.items()):
        old, new = (data.split(b"\n") for data in (before, after))
        for lines in (old, new):
            lines[:] = [line + b"\n" for line in lines[:-1]] + [last for last in lines[-1:] if last]
        names = (os.fsencode(f"a/{path}"), os.fsencode(f"b/{path}"))
        for line in difflib.diff_bytes(difflib.unified_diff, old, new, *names):
            yield line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"
