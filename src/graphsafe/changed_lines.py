"""Which lines of a repository's files have changed since a revision, as git tells it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from graphsafe.errors import RequestError
from graphsafe.report.model import Finding, Report

Lines = Sequence[range]
_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
_OF_ANOTHER_PLACE = frozenset(("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"))
"Git sets these for hooks, relative to a folder that need not be ours."
_EXACT = (
    "--unified=0 --inter-hunk-context=0 --text --no-color --no-ext-diff --no-textconv --no-relative --find-renames "
    "--diff-filter=d --ignore-submodules --src-prefix=a/ --dst-prefix=b/"
).split()
"One hunk a change and nothing else, whatever a user's git is configured to show."


@dataclass(frozen=True, slots=True)
class Changes:
    lines: Mapping[str, Lines]
    "By absolute path."
    new: frozenset[str]
    "Files that git does not know yet."

    def touch(self, finding: Finding) -> bool:
        at = finding.location
        path = os.path.abspath(at.path)
        return path in self.new or any(
            at.line < lines.stop and lines.start <= at.end_line for lines in self.lines.get(path, ())
        )


def only_changed(report: Report, changes: Changes) -> Report:
    """The report without findings on lines that have not changed."""
    return replace(report, findings=tuple(filter(changes.touch, report.findings)))


def changes_since(revision: str, paths: Sequence[Path]) -> Changes:
    """What differs between the files in the work tree and `revision`, or the commit where this branch left it.

    Raises RequestError where `paths` do not lie in one repository, and for what is no revision of it.
    """
    folders = [path.resolve() if path.is_dir() else path.resolve().parent for path in paths]
    top = os.fsdecode(_git(folders[0], "rev-parse", "--show-toplevel").rstrip(b"\n"))
    for folder in folders:
        if not folder.is_relative_to(top):
            raise RequestError(f"--diff: {folder} is not in the git repository {top}")
    commit = _commit(Path(top), revision)
    diff = _git(Path(top), "-c", "core.quotePath=false", "diff", *_EXACT, commit, "--")
    new = _git(Path(top), "ls-files", "--others", "--exclude-standard", "-z").split(b"\0")
    return Changes(
        {os.path.join(top, path): lines for path, lines in changed_lines(diff)},
        frozenset(os.path.join(top, os.fsdecode(path)) for path in new if path),
    )


def changed_lines(diff: bytes) -> Iterator[tuple[str, Lines]]:
    """The lines that each file of a diff without context has gained, by its path in the repository."""
    path = ""
    lines: list[range] = []
    rest = iter(diff.split(b"\n"))
    for line in rest:
        hunk = _HUNK.match(line)
        if line.startswith(b"+++ "):
            if lines:
                yield path, lines
            path, lines = _unquoted(line[4:].rstrip(b"\t")).removeprefix("b/"), []
        elif hunk is not None:
            removed, start, added = (int(1 if number is None else number) for number in hunk.groups())
            if added:
                lines.append(range(start, start + added))
            for _ in range(removed + added):  # these may look like anything
                next(rest, b"")
    if lines:
        yield path, lines


def _unquoted(path: bytes) -> str:
    if path.startswith(b'"'):
        path = _ESCAPE.sub(lambda found: _character(found[1]), path[1:-1])
    return os.fsdecode(path)


def _character(escaped: bytes) -> bytes:
    return bytes([int(escaped, 8)]) if len(escaped) == 3 else _ESCAPED.get(escaped, escaped)


def _commit(top: Path, revision: str) -> str:
    try:
        commit = _git(top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    except RequestError:
        raise RequestError(f'--diff: no revision "{revision}" in the git repository {top}') from None
    found = commit.decode("ascii").strip()
    try:
        return _git(top, "merge-base", found, "HEAD").decode("ascii").strip()
    except RequestError:  # no common past, or a clone that does not reach back to it
        return found


def _git(folder: Path, *arguments: str) -> bytes:
    environment = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER_PLACE}
    environment["LC_ALL"] = "C"
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, env=environment, capture_output=True, check=False)
    except FileNotFoundError:
        raise RequestError("--diff: git is not installed") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        if "not a git repository" in said:
            raise RequestError(f"--diff: {folder} is not in a git repository")
        raise RequestError(f"--diff: git {arguments[0]}: {said}")
    return done.stdout
