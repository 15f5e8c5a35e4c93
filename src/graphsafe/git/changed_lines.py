"""Finds the lines of a repository's files that have changed since a git revision."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from graphsafe.errors import RequestError
from graphsafe.git import calls as git
from graphsafe.report.model import Limit, Report
from graphsafe.scan.sources.source import MAX_BYTES

Content = Callable[[str], "bytes | None"]
"""A function that returns the content of the file at an absolute path, or None if the file cannot be read."""
Lines = Sequence[range]
EVERY_LINE: Lines = (range(0, 1 << 62),)
_SHALLOW = (
    "; this clone is shallow and lacks older commits: get them by `git fetch --unshallow`, or by `fetch-depth: 0` "
    "in the checkout of a CI job"
)
_NOT_COMPARED = "a submodule; --diff does not compare its files, unless it is scanned by itself"
_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True)
class Changes:
    """The files of a repository at a revision. The present files are compared with them."""

    repository: git.Repository
    revision: str
    before: Mapping[str, git.Entry]
    "The files of the revision, by their path from the top folder."
    tracked: Mapping[str, str]
    "The files that git tracks now: path -> mode."

    def lines(self, paths: Iterable[str], content: Content) -> dict[str, Lines]:
        """Return the changed lines of files, given by their absolute paths. Raises RequestError.

        All lines of an untracked file count as changed. No line in a submodule counts as changed. A tracked file that
        the revision does not contain is compared with the most similar file that has disappeared since, as git does to
        find renames.
        """
        found: dict[str, Lines] = dict.fromkeys(paths, ())
        old: dict[str, str] = {}
        new: dict[str, tuple[str, bytes]] = {}
        for path in found:
            name = self._name(path)
            entry = self.before.get(name)
            if self.submodule_of(path) is not None or (entry is not None and self._is_same_link(path, entry)):
                continue
            data = content(path)
            is_new = entry is None and name not in self.tracked
            if data is None or is_new or (entry is not None and entry.mode == git.LINK):
                found[path] = EVERY_LINE
            elif entry is None or _hash(data, entry.blob) != entry.blob:
                key = f"{len(new)}.py"
                new[key] = path, data
                if entry is not None:
                    old[key] = entry.blob
        if len(old) < len(new):
            python = [(name, entry.blob) for name, entry in self.before.items() if name.endswith(".py")]
            gone = (blob for name, blob in python if not os.path.lexists(os.path.join(self.repository.top, name)))
            old.update((f"gone{number}.py", blob) for number, blob in enumerate(gone))
        found.update(self._compared(old, new))
        return found

    def _compared(self, old: Mapping[str, str], new: Mapping[str, tuple[str, bytes]]) -> dict[str, Lines]:
        sizes = self.repository.sizes(old.values())
        if any(blob not in sizes for blob in old.values()):
            raise RequestError(
                f"--diff: this partial clone lacks files of {self.revision}; `git diff {self.revision}` fetches them"
            )
        blobs = self.repository.blobs(_small(sizes))
        before = {name: _with_line_feeds(blobs[blob]) for name, blob in old.items() if blob in blobs}
        after = {name: _with_line_feeds(data) for name, (_, data) in new.items()}
        changed = dict(changed_lines(git.diff(before, after))) if after else {}
        return {path: changed.get(f"after/{name}", ()) for name, (path, _) in new.items()}

    def _name(self, path: str) -> str:
        folder, name = os.path.split(path)
        return Path(os.path.relpath(os.path.join(os.path.realpath(folder), name), self.repository.top)).as_posix()

    def submodule_of(self, path: str) -> str | None:
        """Return the folder of the submodule that contains a file, relative to the top folder. Return None if there is
        none."""
        for folder in map(str, PurePosixPath(self._name(path)).parents):
            entry = self.before.get(folder)
            if self.tracked.get(folder, entry.mode if entry is not None else "") == git.SUBMODULE:
                return folder
        return None

    def _is_same_link(self, path: str, entry: git.Entry) -> bool:
        if entry.mode != git.LINK:
            return False
        try:
            target = os.readlink(path)
        except OSError:
            return False
        return _hash(os.fsencode(target), entry.blob) == entry.blob


def only_changed(report: Report, changes: Changes, content: Content) -> Report:
    """Return the report without findings on lines that have not changed. Raises RequestError.

    A submodule is not compared. If a submodule has findings, the report gets a limit for it.
    """
    paths = {finding.location.path: os.path.abspath(finding.location.path) for finding in report.findings}
    lines = changes.lines(sorted({*paths.values()}), content)

    def touch(path: str, first: int, last: int) -> bool:
        return any(first < changed.stop and changed.start <= last for changed in lines[paths[path]])

    findings = (one for one in report.findings if touch(one.location.path, one.location.line, one.location.end_line))
    submodules = dict.fromkeys(filter(None, map(changes.submodule_of, paths.values())))
    limits = (Limit("submodule", folder, _NOT_COMPARED) for folder in submodules)
    return replace(report, findings=tuple(findings), limits=(*report.limits, *limits))


def changes_since(revision: str, paths: Sequence[Path]) -> Changes:
    """Return the changes since the last common commit of HEAD and `revision`, or since `revision` if none is known.

    Raises RequestError if `paths` are not in one repository, or if the repository does not have the revision.
    """
    folders = [path.resolve() if path.is_dir() else path.resolve().parent for path in paths]
    repository = git.Repository.over(folders[0])
    for folder in folders:
        if not folder.is_relative_to(repository.top):
            raise RequestError(f"--diff: {folder} is not in the git repository {repository.top}")
    commit = repository.commit(revision)
    if commit is None:
        why = f'--diff: no revision "{revision}" in the git repository {repository.top}'
        raise RequestError(why + _SHALLOW if repository.is_shallow() else why)
    commit = repository.merge_base(commit) or commit
    return Changes(repository, revision, repository.tree(commit), repository.index())


def changes_since_last_of(file: Path) -> Changes | None:
    """Return the changes since the commit that last changed a file, or None if that commit is unknown."""
    try:
        repository = git.Repository.over(file.parent)
        commit = repository.last_change(file.resolve().relative_to(repository.top).as_posix())
        return None if commit is None else Changes(repository, commit, repository.tree(commit), repository.index())
    except (RequestError, ValueError):
        return None


def changed_lines(diff: bytes) -> Iterator[tuple[str, Lines]]:
    """Yield, for each file of a diff without context, its path in the diff and the lines that were added."""
    path = ""
    lines: list[range] = []
    rest = iter(diff.split(b"\n"))
    for line in rest:
        hunk = _HUNK.match(line)
        if line.startswith(b"+++ "):
            if lines:
                yield path, lines
            path, lines = os.fsdecode(line[4:].rstrip(b"\t")).removeprefix("b/"), []
        elif hunk is not None:
            removed, start, added = (int(1 if number is None else number) for number in hunk.groups())
            if added:
                lines.append(range(start, start + added))
            for _ in range(removed + added):  # the content lines are skipped, because they may look like headers
                next(rest, b"")
    if lines:
        yield path, lines


def _small(sizes: Mapping[str, int]) -> Iterator[str]:
    """Yield the hashes of contents that are not too large to be compared. A file without an old content counts as
    changed in every line."""
    room = git.MAX_OUTPUT // 2
    for blob, size in sizes.items():
        if size <= min(MAX_BYTES, room):
            room -= size
            yield blob


def _with_line_feeds(data: bytes) -> bytes:
    """Return the content with line feeds as line ends, which is how git stores it."""
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data


def _hash(data: bytes, like: str) -> str:
    """Return git's hash of a content, made with the same algorithm as the hash `like`."""
    algorithm = hashlib.sha1 if len(like) == 40 else hashlib.sha256
    return algorithm(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
