"""Applies the fixes of findings to their files."""

from __future__ import annotations

import ast
import difflib
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from graphsafe.fixes.proposals import SAFE
from graphsafe.held_files import HeldFiles, Scan
from graphsafe.report.model import Edit, Finding, Report, unsuppressed
from graphsafe.scan.sources.source import Unreadable, editable_lines

MAX_ROUNDS = 10
"""The largest number of rounds of scanning and fixing. After one fix, another one may become possible on the same line
or on the lines around it."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """The result of fixing."""

    first: Report
    "The report before the fixes."
    report: Report
    "The report after the fixes, with the findings that remain."
    held: HeldFiles
    made: Sequence[Finding]
    "The findings that were fixed, at their lines before any fix."

    @property
    def count(self) -> int:
        """The number of findings that were fixed in files that could be written."""
        files = self.files
        return sum(one.location.path in files for one in self.made)

    @property
    def risks(self) -> Sequence[str]:
        """The cases in which unsafe fixes change a result, one per line."""
        files = self.files
        found = [
            (at.path, at.line, risk)
            for one in self.made
            if (risk := one.data.get("edits_risk")) and (at := one.location).path in files
        ]
        return [f"{path}:{line}: unsafe: {risk}" for path, line, risk in sorted(found)]

    @property
    def files(self) -> Mapping[str, tuple[bytes, bytes]]:
        """The contents of the files before and after, by the paths in the report."""
        return self.held.changed()

    @property
    def failures(self) -> Sequence[str]:
        """The files that could not be fixed, each with the reason."""
        return [f"{path}: {why}" for path, why in self.held.failures.items()]


def fixable(report: Report, unsafe: bool) -> list[Finding]:
    """Return the findings that have safe edits or, if `unsafe` is given, any edits."""
    return [one for one in unsuppressed(report) if one.edits and (unsafe or one.data.get("edits") == SAFE)]


def fix_all(scan: Scan, root: Path, unsafe: bool) -> Fixed:
    """Apply fixes to the files of the project in `root`, and scan again until no fix is left.

    Nothing is written to disk. Files may change meanwhile, and the first report may come from a cache.
    """
    wanted = partial(fixable, unsafe=unsafe)
    files = HeldFiles(root)
    made: list[Finding] = []
    first = report = scan({})
    for _ in range(MAX_ROUNDS):
        report = files.scanned(scan, wanted, report)
        done = _fix_once(wanted(report), files)
        if not done:
            break
        made += done
        report = scan(files.buffers())
    return Fixed(first, report, files, made)


def _fix_once(findings: Iterable[Finding], files: HeldFiles) -> list[Finding]:
    made: list[Finding] = []
    for path, found in files.by_file(findings).items():
        edits, taken = apart(found)
        try:
            content = edited(files.content(path), edits)
        except Unreadable as error:
            files.failures[path] = error.reason
            continue
        numbers = _numbers_before(files.saved(path), files.content(path))
        made += [replace(one, location=replace(one.location, line=numbers[one.location.line - 1])) for one in taken]
        files.change(path, content)
    return made


def _numbers_before(saved: bytes, content: bytes) -> Sequence[int]:
    """Return, for each line of a file's content after some fixes, the number of the line in the saved file."""
    before, now = saved.splitlines(), content.splitlines()
    if before == now:
        return range(1, len(now) + 1)
    numbers: list[int] = []
    for _, first, last, start, end in difflib.SequenceMatcher(None, before, now, autojunk=False).get_opcodes():
        numbers += [min(first + number, max(last, 1)) for number in range(1, end - start + 1)]
    return numbers


def apart(findings: Iterable[Finding]) -> tuple[list[Edit], list[Finding]]:
    """Return edits that do not overlap, chosen from the top of the file down, and the findings that they repair."""
    edits: list[Edit] = []
    taken: list[Finding] = []
    for finding in findings:
        if not any(_overlap(edit, other) for edit in finding.edits for other in edits):
            edits += finding.edits
            taken.append(finding)
    return edits, taken


def _overlap(one: Edit, other: Edit) -> bool:
    (start, end), (second, _) = sorted(((at.line, at.column), (at.end_line, at.end_column)) for at in (one, other))
    return second < end or start == second


def edited(data: bytes, edits: Sequence[Edit]) -> bytes:
    """Return a file's content after edits. Its encoding and line ends are kept.

    Raises Unreadable if the file cannot be edited or if the result is not Python.
    """
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
        raise Unreadable(f"the fixes would produce invalid Python: {error}") from None


def write(fixed: Fixed, scan: Scan) -> Fixed:
    """Write the files. If one of them cannot be written, return the findings of a new scan."""
    return fixed if fixed.held.write() else replace(fixed, report=scan({}))


def diff(fixed: Fixed) -> Iterator[bytes]:
    """Yield the changes line by line, as a unified diff for `git apply` and `patch`."""
    for path, (before, after) in sorted(fixed.files.items()):
        old, new = (data.split(b"\n") for data in (before, after))
        for lines in (old, new):
            lines[:] = [line + b"\n" for line in lines[:-1]] + [last for last in lines[-1:] if last]
        names = (os.fsencode(f"a/{path}"), os.fsencode(f"b/{path}"))
        for line in difflib.diff_bytes(difflib.unified_diff, old, new, *names):
            yield line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"
