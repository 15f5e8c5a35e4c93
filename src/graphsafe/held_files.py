"""Stores the contents of the files that findings name.

Each file is read only once. Repairs and further scans work on the stored contents, before anything is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from graphsafe.files import with_real_folder, write_atomically
from graphsafe.report.model import Finding, Report
from graphsafe.scan.sources.source import Unreadable, read_bytes

Scan = Callable[[Mapping[Path, bytes]], Report]
"""A function that scans with the given contents in place of the saved files."""


class HeldFiles:
    """The contents of a project's files, by the paths of locations. Links to one file share its content."""

    def __init__(self, root: Path) -> None:
        """Start without files. `root` is the project's folder. Files outside this folder, reached by a link or by `..`,
        are never read."""
        self._root = os.path.realpath(root)
        self._real: dict[str, str] = {}
        self._first: dict[str, str] = {}
        "File -> the first path that leads to it."
        self._before: dict[str, bytes] = {}
        self._now: dict[str, bytes] = {}
        self.failures: dict[str, str] = {}
        "Path -> why the file could not be read or written."

    def scanned(self, scan: Scan, named: Callable[[Report], Iterable[Finding]], report: Report) -> Report:
        """Read every file for which `named(report)` has a finding, and scan again with the contents that were read.
        Repeat until a report names no new file, and return the last report."""
        while self._hold(finding.location.path for finding in named(report)):
            report = scan(self.buffers())
        return report

    def _hold(self, paths: Iterable[str]) -> bool:
        """Read the files that have not been read yet. Return whether there were any."""
        unread = [path for path in dict.fromkeys(paths) if path not in self._real and path not in self.failures]
        for path in unread:
            real = os.path.realpath(path)
            try:
                if os.path.commonpath([real, self._root]) != self._root:
                    raise Unreadable("points outside the project; not written")
                if real not in self._now:
                    self._before[real] = self._now[real] = read_bytes(real)
                    self._first[real] = path
                self._real[path] = real
            except Unreadable as error:
                self.failures[path] = error.reason
            except ValueError:  # on another drive
                self.failures[path] = "points outside the project; not written"
        return any(path in self._real for path in unread)

    def by_file(self, findings: Iterable[Finding]) -> Mapping[str, list[Finding]]:
        """Return the findings in the files that were read, by path.

        If a file is reached through several links, only the findings of the first link are returned.
        """
        found: dict[str, list[Finding]] = {}
        for finding in findings:
            path = finding.location.path
            if path in self._real and path not in self.failures and self._first[self._real[path]] == path:
                found.setdefault(path, []).append(finding)
        return found

    def content(self, path: str) -> bytes:
        return self._now[self._real[path]]

    def saved(self, path: str) -> bytes:
        """Return the content that was read."""
        return self._before[self._real[path]]

    def change(self, path: str, content: bytes) -> None:
        self._now[self._real[path]] = content

    def buffers(self) -> Mapping[Path, bytes]:
        """Return the contents that a scan reads in place of the saved files."""
        return {with_real_folder(path): self._now[real] for path, real in self._real.items()}

    def changed(self) -> Mapping[str, tuple[bytes, bytes]]:
        """Return the changed files: path -> its content before and after."""
        pairs = {path: (self._before[real], self._now[real]) for real, path in sorted(self._first.items())}
        return {path: pair for path, pair in pairs.items() if pair[0] != pair[1]}

    def write(self) -> bool:
        """Write the changed files. Return whether all were written; if not, `failures` says why.

        A file that somebody has saved meanwhile is not written.
        """
        is_whole = True
        for path, (before, after) in self.changed().items():
            try:
                write_atomically(Path(self._real[path]), after, before=before)
            except OSError as error:
                self.failures[path] = error.strerror or type(error).__name__
                self.change(path, before)
                is_whole = False
        return is_whole
