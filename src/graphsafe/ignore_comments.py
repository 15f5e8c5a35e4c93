"""Writes `# graphsafe: ignore[GS101] reason` on the lines of findings, and changes nothing else in a file.

Comments are inserted into the content itself, so every other byte stays as it is. A file is written only if its tokens,
except for comments, are the same before and after.
"""

from __future__ import annotations

import io
import tokenize
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphsafe.errors import RequestError
from graphsafe.held_files import HeldFiles, Scan
from graphsafe.report.model import Finding, Report
from graphsafe.scan.sources.source import Unreadable, editable_lines
from graphsafe.scan.sources.suppress import comment_in, line_ends

_OWN = "GS90"
"The prefix of the codes for files, suppressions and baselines. No comment can suppress findings with these codes."


@dataclass(frozen=True, slots=True)
class Added:
    report: Report
    "The report before the change."
    findings: int
    "The number of findings that have a comment now."
    files: int
    failures: tuple[str, ...]
    "The findings that could not get a comment and the files that could not be written, each with the reason."


def check_reason(reason: str) -> None:
    """Raise RequestError for a reason that cannot be part of a comment."""
    read = comment_in(f"# graphsafe: ignore[X] {reason}", 1, 1)
    if not reason.isprintable() or read is None or read.reason != reason.strip() or not reason.strip():
        raise RequestError("--add-ignore: a reason is one line of text without ` # ` in it")


def add_ignores(scan: Scan, root: Path, failing: Callable[[Report], list[Finding]], reason: str) -> Added:
    """Write a comment with the reason at each finding that `failing` returns. Existing comments are extended.

    Only files of the project in `root` are written. A file that somebody has saved meanwhile is not overwritten.
    """
    files = HeldFiles(root)
    first = scan({})
    found = failing(files.scanned(scan, failing, first))
    own = [one for one in found if one.code.startswith(_OWN)]
    failures = [f"{one.location.path}:{one.location.line}: {one.code} is not suppressed by a comment" for one in own]
    counts: dict[str, int] = {}
    for path, here in files.by_file(one for one in found if not one.code.startswith(_OWN)).items():
        try:
            data = _commented(files.content(path), here, reason.strip())
            files.change(path, data)
        except Unreadable as error:
            files.failures[path] = error.reason
            continue
        counts[path] = len(here)
    files.write()
    failures += (f"{path}: {why}" for path, why in files.failures.items())
    written = [path for path, count in counts.items() if count and path not in files.failures]
    return Added(first, sum(counts[path] for path in written), len(written), tuple(failures))


def _commented(data: bytes, findings: Iterable[Finding], reason: str) -> bytes:
    """Return the file's content with comments. Raises Unreadable."""
    encoding, lines, ends = editable_lines(data)
    before = "\n".join(lines)
    places = _places(before, lines)
    codes: dict[int, list[str]] = {}
    for finding in findings:
        line = next(line for line in places if line >= finding.location.line)
        if finding.code not in codes.setdefault(line, []):
            codes[line].append(finding.code)
    for line, named in codes.items():
        column, comment = places[line]
        lines[line - 1] = lines[line - 1][:column].rstrip() + "  " + _merged(comment, named, reason)
    if _words(before) != _words("\n".join(lines)):
        raise Unreadable("adding comments would change more than comments in this file; not written")
    after = "".join(line + end for line, end in zip(lines, [*ends, ""], strict=True))
    try:
        return after.encode(encoding)
    except UnicodeEncodeError:
        raise Unreadable(f"the reason has characters that the file's encoding, {encoding}, lacks") from None


def _merged(comment: str, codes: Collection[str], reason: str) -> str:
    """Return the comment with a suppression of `codes`. It replaces an existing suppression, or is added at the end."""
    known = comment_in(comment, 1, 0)
    if known is None:
        return f"{comment.rstrip()}  # graphsafe: ignore[{', '.join(sorted(codes))}] {reason}".lstrip()
    every = [*known.codes, *sorted(code for code in codes if not known.codes or not known.covers(code))]
    if known.reason is not None:
        reason = known.reason if reason in known.reason else f"{known.reason}; {reason}"
    written = f"# graphsafe: ignore[{', '.join(every)}] {reason}"
    return comment[: known.column] + written + comment[known.column + len(known.text) :]


def _places(text: str, lines: Sequence[str]) -> Mapping[int, tuple[int, str]]:
    """For each line number (from 1), return the column at which a comment can be written (from 0), and the comment that
    is already there. A line that ends inside a string or with a backslash has no such column."""
    places: dict[int, tuple[int, str]] = {}
    for token in line_ends(_tokens(text)):
        line, column = token.start
        if token.type == tokenize.COMMENT:
            places[line] = (column, token.string)
        elif line <= len(lines):
            places.setdefault(line, (column, ""))
    return places


def _words(text: str) -> list[tuple[int, str]]:
    """Return the tokens of a source, except comments and line ends."""
    left_out = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE)
    return [(token.type, token.string) for token in _tokens(text) if token.type not in left_out]


def _tokens(text: str) -> Sequence[tokenize.TokenInfo]:
    try:
        return list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError) as error:
        raise Unreadable(f"not Python: {error.args[0]}") from None
